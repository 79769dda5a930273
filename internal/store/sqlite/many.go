package sqlite

import "strings"

// manyRows is the number of rows that one statement inserts if there are enough. SQLite
// opens a cursor on each index for each statement, which is a tenth of the cost of a
// single row.
const manyRows = 16

// ofMany turns a statement that inserts one row into one that inserts manyRows.
func ofMany(statement, row string) string {
	return strings.Replace(statement, row, row+strings.Repeat(", "+row, manyRows-1), 1)
}

// portion returns the next of the two statements for the remaining rows, and how many it
// inserts.
func portion(one, many string, left int) (statement string, rows int) {
	if left < manyRows {
		return one, 1
	}
	return many, manyRows
}
