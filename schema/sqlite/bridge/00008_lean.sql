-- +goose Up
-- SQLite is told by INDEXED BY which index a statement takes.
SELECT 1;

-- +goose Down
SELECT 1;
