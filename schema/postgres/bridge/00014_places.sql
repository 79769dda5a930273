-- +goose Up
-- SQLite's alone: an index there need not end with the key.
SELECT 1;

-- +goose Down
SELECT 1;
