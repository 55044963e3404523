/* retcon
description: One row per order, its amount in USD at the rate of the order's own day.
owner: data-platform
slices: {by: order_date, every: day}
key: [order_id]
inputs:
  raw.orders: {time: order_date}
  raw.fx_rates: {time: rate_date}
gates:
  - rows: {min: 1}
  - unique: [order_date, order_id]
  - not_null: [amount_usd]
  - drift: {metric: sum(amount_usd), within: 20%}
*/
SELECT
  o.order_id,
  o.order_date,
  o.customer_id,
  o.currency,
  o.amount,
  CAST(ROUND(o.amount * r.rate, 2) AS DECIMAL(14, 2)) AS amount_usd
FROM raw.orders o
JOIN raw.fx_rates r
  ON r.rate_date = o.order_date
  AND r.currency = o.currency
