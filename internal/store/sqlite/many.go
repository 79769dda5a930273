package sqlite

import "strings"

// manyRows is how many rows one statement puts down where there are so many.
// SQLite opens a cursor on each index of a table for each statement, which is a
// tenth of what a row costs that comes alone.
const manyRows = 16

// ofMany is a statement that puts down one row, made to put down many.
func ofMany(statement, row string) string {
	return strings.Replace(statement, row, row+strings.Repeat(", "+row, manyRows-1), 1)
}

// portion says which of the two statements is next where so many rows are left,
// and how many it puts down.
func portion(one, many string, left int) (statement string, rows int) {
	if left < manyRows {
		return one, 1
	}
	return many, manyRows
}
