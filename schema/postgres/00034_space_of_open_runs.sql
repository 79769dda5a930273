-- +goose Up
-- A row of open_runs has three versions: of its plan, its claim and its begin. With space
-- for all of them on its page, a begin changes no index.
ALTER TABLE open_runs SET (fillfactor = 40);
-- Keys are random bytes: to compress them takes time and saves nothing.
ALTER TABLE changes ALTER COLUMN keys SET STORAGE EXTERNAL;

-- +goose Down
ALTER TABLE changes ALTER COLUMN keys SET STORAGE EXTENDED;
ALTER TABLE open_runs SET (fillfactor = 60);
