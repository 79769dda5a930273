-- +goose Up
-- What the end of a run reads of its queue: the target of its messages and their types, as
-- schedule.QueueWebhook writes them. NULL: none. Addresses and secrets are in WEBHOOK_TARGETS_FILE.
ALTER TABLE queues ADD COLUMN webhook TEXT;
-- The target of a run that names its own one.
ALTER TABLE open_runs ADD COLUMN webhook TEXT;
ALTER TABLE ended_runs ADD COLUMN webhook TEXT;
-- The run that a message is about; its payload is made when it is sent. NULL: an alert or a test.
ALTER TABLE alert_deliveries ADD COLUMN idempotency_key BLOB;
CREATE INDEX alert_deliveries_dead_runs ON alert_deliveries (created_at, delivery_id) WHERE state = 'DEAD' AND idempotency_key IS NOT NULL; -- to send them again
-- A target with a long queue of messages does not slow the others.
-- Notifications are few among the messages about runs.
CREATE INDEX alert_deliveries_alerts ON alert_deliveries (created_at DESC, delivery_id DESC) WHERE idempotency_key IS NULL;
CREATE INDEX alert_deliveries_target ON alert_deliveries (target, next_at) WHERE state = 'PENDING';

-- +goose Down
DROP INDEX alert_deliveries_target;
DROP INDEX alert_deliveries_alerts;
DROP INDEX alert_deliveries_dead_runs;
-- Older releases cannot send them.
DELETE FROM alert_deliveries WHERE idempotency_key IS NOT NULL;
ALTER TABLE alert_deliveries DROP COLUMN idempotency_key;
ALTER TABLE ended_runs DROP COLUMN webhook;
ALTER TABLE open_runs DROP COLUMN webhook;
ALTER TABLE queues DROP COLUMN webhook;
