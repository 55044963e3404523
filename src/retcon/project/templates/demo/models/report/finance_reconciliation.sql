/* retcon
description: Local amounts as they were ordered against the USD that was booked for them, per day and currency.
owner: finance
slices: {by: order_date, every: day}
key: [order_date, currency]
inputs:
  raw.orders: {time: order_date}
  mart.fct_daily_revenue: {time: order_date}
gates:
  - rows: {min: 1}
  - unique: key
  - not_null: [amount_local, revenue_usd]
  - drift: {metric: sum(revenue_usd), within: 20%}
consumers: [finance_recon]
*/
WITH ordered AS (
  SELECT
    o.order_date,
    o.currency,
    count(*) AS orders,
    sum(o.amount) AS amount_local
  FROM raw.orders o
  GROUP BY o.order_date, o.currency
)
SELECT
  ordered.order_date,
  ordered.currency,
  ordered.orders,
  booked.orders AS orders_booked,
  ordered.amount_local,
  booked.revenue_usd,
  CAST(booked.revenue_usd / NULLIF(ordered.amount_local, 0) AS DECIMAL(18, 8)) AS implied_rate
FROM ordered
LEFT JOIN mart.fct_daily_revenue booked
  ON booked.order_date = ordered.order_date
  AND booked.currency = ordered.currency
