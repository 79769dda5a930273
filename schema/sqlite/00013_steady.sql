-- +goose Up
-- Postgres' indexes alone.
SELECT 1;

-- +goose Down
SELECT 1;
