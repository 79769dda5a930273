-- +goose Up
-- SQLite's indexes; 00008_lean.sql did the same here.
SELECT 1;

-- +goose Down
SELECT 1;
