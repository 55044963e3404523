/* retcon
description: Orders and revenue per day and currency, in USD.
owner: data-platform
slices: {by: order_date, every: day}
key: [order_date, currency]
inputs:
  mart.fct_orders_usd: {time: order_date}
gates:
  - rows: {min: 1}
  - unique: key
  - not_null: [revenue_usd]
  - drift: {metric: sum(revenue_usd), within: 20%}
consumers: [exec_dashboard]
*/
SELECT
  order_date,
  currency,
  count(*) AS orders,
  sum(amount_usd) AS revenue_usd
FROM mart.fct_orders_usd
GROUP BY order_date, currency
