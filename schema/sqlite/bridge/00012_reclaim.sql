-- +goose Up
-- SQLite's index has the epoch; 00012_reclaim.sql gives it to Postgres' here.
SELECT 1;

-- +goose Down
SELECT 1;
