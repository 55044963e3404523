/* retcon
description: What the executives see each morning; the trailing week reads six days before each day.
owner: exec-ops
slices: {by: order_date, every: day, start: 2025-10-31} # six days after the first order
key: [order_date]
inputs:
  d: {table: mart.fct_daily_revenue, time: order_date}
  w: {table: mart.fct_daily_revenue, time: order_date, lookback: 6}
gates:
  - rows: {min: 1, max: 1}
  - unique: key
  - not_null: [revenue_usd, revenue_usd_7d]
  - drift: {metric: sum(revenue_usd), within: 20%}
consumers: [exec_dashboard]
*/
WITH per_day AS (
  SELECT
    d.order_date,
    sum(d.orders) AS orders,
    sum(d.revenue_usd) AS revenue_usd,
    max(d.revenue_usd) AS largest_currency_usd
  FROM mart.fct_daily_revenue d
  GROUP BY d.order_date
)
SELECT
  per_day.order_date,
  per_day.orders,
  per_day.revenue_usd,
  CAST(per_day.largest_currency_usd / NULLIF(per_day.revenue_usd, 0) AS DECIMAL(18, 6)) AS largest_currency_share,
  sum(w.revenue_usd) AS revenue_usd_7d
FROM per_day
JOIN mart.fct_daily_revenue w
  ON w.order_date BETWEEN date_sub(per_day.order_date, 6) AND per_day.order_date
GROUP BY per_day.order_date, per_day.orders, per_day.revenue_usd, per_day.largest_currency_usd
