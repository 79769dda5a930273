-- +goose Up
-- How a message is sent: webhook, email, slack, pagerduty, teams or ntfy. What is
-- there already went to ALERT_WEBHOOK_URL.
ALTER TABLE alert_deliveries ADD COLUMN target_kind TEXT NOT NULL DEFAULT 'webhook';

-- The targets that were told of an alert, between commas: they are told of its
-- end, too, even if the routes have changed by then.
ALTER TABLE alerts ADD COLUMN targets TEXT NOT NULL DEFAULT '';
UPDATE alerts AS a SET targets = COALESCE((SELECT group_concat(DISTINCT d.target) FROM alert_deliveries d WHERE d.alert_id = a.alert_id), '')
WHERE closed_at IS NULL;

-- +goose Down
ALTER TABLE alerts DROP COLUMN targets;
ALTER TABLE alert_deliveries DROP COLUMN target_kind;
