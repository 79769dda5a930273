package dumps_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillon/carillon/schema"
)

// dialect reads the rows of one database as SQL text.
type dialect struct {
	name schema.Dialect
	// columns lists all columns with their kinds: bytes, number or text.
	columns string
	// literal is an expression for a column as SQL text; order sorts it by bytes.
	literal, order func(column, kind string) string
	// insert comes between the columns and VALUES.
	insert string
	// identities lists the statements that set the counters of generated ids.
	identities string
}

var postgresDialect = dialect{
	name: schema.Postgres,
	columns: `SELECT c.table_name, c.column_name, CASE WHEN c.data_type = 'bytea' THEN 'bytes'
	WHEN c.data_type IN ('integer','bigint','smallint','boolean') THEN 'number' ELSE 'text' END
FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.table_name <> 'goose_db_version'
ORDER BY c.table_name COLLATE "C", c.ordinal_position`,
	literal: func(column, kind string) string {
		switch kind {
		case "bytes":
			return `coalesce('''\x' || encode(` + column + `, 'hex') || '''', 'NULL')`
		case "number":
			return `coalesce(` + column + `::text, 'NULL')`
		}
		return `quote_nullable(` + column + `::text)`
	},
	order: func(column, kind string) string {
		if kind == "text" {
			return column + `::text COLLATE "C"`
		}
		return column
	},
	insert: " OVERRIDING SYSTEM VALUE",
	identities: `SELECT format('SELECT setval(pg_get_serial_sequence(%L, %L), max(%I)) FROM %I;', table_name, column_name, column_name, table_name)
FROM information_schema.columns WHERE table_schema = 'public' AND is_identity = 'YES' AND table_name <> 'goose_db_version' ORDER BY table_name COLLATE "C"`,
}

var sqliteDialect = dialect{
	name: schema.SQLite,
	columns: `SELECT m.name, c.name, CASE c.type WHEN 'BLOB' THEN 'bytes' WHEN 'INTEGER' THEN 'number' ELSE 'text' END
FROM sqlite_schema m JOIN pragma_table_info(m.name) c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version' ORDER BY m.name, c.cid`,
	literal:    func(column, _ string) string { return `quote(` + column + `)` },
	order:      func(column, _ string) string { return column },
	identities: `SELECT '' WHERE false`, // AUTOINCREMENT follows the ids that are inserted
}

type column struct{ table, name, kind string }

func (d *dialect) tables(ctx context.Context, t testing.TB, db *sql.DB) (names []string, columns map[string][]column) {
	t.Helper()
	columns = make(map[string][]column)
	for _, row := range rows(ctx, t, db, d.columns, 3) {
		c := column{row[0], row[1], row[2]}
		if columns[c.table] == nil {
			names = append(names, c.table)
		}
		columns[c.table] = append(columns[c.table], c)
	}
	return names, columns
}

// first are the columns to sort by first, so that a dump can be read.
var first = []string{"schedule_id", "run_at", "event_id", "audit_id", "revision"}

// dump returns all rows as SQL text: one INSERT a table, one line a row.
func (d *dialect) dump(t testing.TB, db *sql.DB) string {
	t.Helper()
	ctx := t.Context()
	var out strings.Builder
	fmt.Fprintf(&out, "-- Made by: go test ./internal/test/storetest/dumps -run TestBothDatabases -update\n-- Schema version: %d\n", dumped)
	names, columns := d.tables(ctx, t, db)
	for _, table := range names {
		var all, literals, order []string
		for _, c := range columns[table] {
			all, literals = append(all, c.name), append(literals, d.literal(c.name, c.kind))
			order = append(order, d.order(c.name, c.kind))
		}
		for i := len(first) - 1; i >= 0; i-- {
			if at := slices.Index(all, first[i]); at >= 0 {
				order = append([]string{d.order(first[i], columns[table][at].kind)}, order...)
			}
		}
		found := rows(ctx, t, db, "SELECT "+strings.Join(literals, ` || ', ' || `)+" FROM "+table+" ORDER BY "+strings.Join(order, ", "), 1)
		if len(found) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\nINSERT INTO %s (%s)%s VALUES\n", table, strings.Join(all, ", "), d.insert)
		for i, row := range found {
			fmt.Fprintf(&out, "(%s)%s\n", row[0], map[bool]string{true: ";", false: ","}[i == len(found)-1])
		}
	}
	out.WriteByte('\n')
	for _, row := range rows(ctx, t, db, d.identities, 1) {
		out.WriteString(row[0] + "\n")
	}
	return out.String()
}

// load replaces all rows by those of a dump.
func (d *dialect) load(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	names, _ := d.tables(t.Context(), t, db)
	for _, table := range names {
		exec(t, db, "DELETE FROM "+table)
	}
	exec(t, db, text)
}

func exec(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%.200s: %v", statement, err)
	}
}

// rows are the rows of a query, n texts each.
func rows(ctx context.Context, t testing.TB, db *sql.DB, query string, n int) (all [][]string) {
	t.Helper()
	found, err := db.QueryContext(ctx, query)
	if err != nil {
		t.Fatalf("%.300s: %v", query, err)
	}
	defer found.Close()
	for found.Next() {
		row, into := make([]string, n), make([]any, n)
		for i := range row {
			into[i] = &row[i]
		}
		if err := found.Scan(into...); err != nil {
			t.Fatalf("%.300s: %v", query, err)
		}
		all = append(all, row)
	}
	if err := found.Err(); err != nil {
		t.Fatalf("%.300s: %v", query, err)
	}
	return all
}
