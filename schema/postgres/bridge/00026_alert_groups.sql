-- +goose Up
-- Alerts that one target is told of together: one row is one incident of one
-- target (docs/notifications.md, "One message per incident").
CREATE TABLE alert_groups (
    target      text COLLATE "C" NOT NULL,
    group_id    text COLLATE "C" NOT NULL, -- the alert that started it
    grouped_by  text COLLATE "C" NOT NULL, -- what its alerts have in common
    joined_at   timestamptz NOT NULL,     -- when the newest alert joined
    told_at     timestamptz,              -- of the last message; NULL = none yet
    check_at    timestamptz,              -- when a message may be due; NULL = when an alert changes
    closed_at   timestamptz,              -- its last message says that all alerts are closed
    PRIMARY KEY (target, group_id)
);
CREATE INDEX alert_groups_check ON alert_groups (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX alert_groups_open ON alert_groups (joined_at) WHERE closed_at IS NULL;
CREATE INDEX alert_groups_closed ON alert_groups (closed_at) WHERE closed_at IS NOT NULL; -- for retention

-- The newest notice of each alert for each target that gets grouped messages.
CREATE TABLE alert_group_members (
    alert_id    text COLLATE "C" NOT NULL,
    target      text COLLATE "C" NOT NULL,
    group_id    text COLLATE "C",         -- NULL = in no group yet
    grouped_by  text COLLATE "C" NOT NULL,
    schedule_id text COLLATE "C" NOT NULL,
    type        text NOT NULL,
    payload     text NOT NULL,
    opened_at   timestamptz NOT NULL,     -- of the first notice
    noticed_at  timestamptz NOT NULL,     -- of the newest
    told        boolean NOT NULL,         -- the newest notice is in a message
    pending     boolean NOT NULL,         -- the group has not seen the newest notice
    PRIMARY KEY (alert_id, target)
);
CREATE INDEX alert_group_members_pending ON alert_group_members (noticed_at) WHERE pending;
CREATE INDEX alert_group_members_group ON alert_group_members (target, group_id);
CREATE INDEX alert_group_members_schedule ON alert_group_members (schedule_id);

-- +goose Down
DROP TABLE alert_group_members;
DROP TABLE alert_groups;
