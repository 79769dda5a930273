package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// copied is rows in the binary format of COPY: for each row its number of columns, for
// each column its length and value. COPY inserts many rows for about half of what INSERT
// takes of one array for each column. pgx.CopyFrom is not used: it looks for an encoder
// for each value of each row.
// https://www.postgresql.org/docs/current/sql-copy.html describes the format.
type copied struct{ buf []byte }

const copySignature = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // no flags, no extension

// newCopied has space for rows of about the given size.
func newCopied(rows, size int) *copied {
	return &copied{append(make([]byte, 0, len(copySignature)+rows*size+2), copySignature...)}
}

// into sends the rows with a COPY statement and returns how many were inserted.
func (c *copied) into(ctx context.Context, tx pgx.Tx, statement string) (int, error) {
	c.buf = binary.BigEndian.AppendUint16(c.buf, math.MaxUint16)
	tag, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(c.buf), statement)
	return int(tag.RowsAffected()), err
}

func (c *copied) row(columns int) { c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(columns)) }

func (c *copied) length(n int) { c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n)) }

func (c *copied) null() { c.length(-1) }

func (c *copied) boolean(v bool) {
	c.length(1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

func (c *copied) int2(v int16) {
	c.length(2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

func (c *copied) int4(v int32) {
	c.length(4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

func (c *copied) int8(v int64) {
	c.length(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *copied) noneOrInt4(v pgtype.Int4) {
	if v.Valid {
		c.int4(v.Int32)
	} else {
		c.null()
	}
}

func (c *copied) bytea(v []byte) {
	if v == nil {
		c.null()
		return
	}
	c.length(len(v))
	c.buf = append(c.buf, v...)
}

func (c *copied) text(v string) {
	c.length(len(v))
	c.buf = append(c.buf, v...)
}

func (c *copied) noneOrText(v pgtype.Text) {
	if v.Valid {
		c.text(v.String)
	} else {
		c.null()
	}
}

// noneOrJSONB sends text: version 1 of jsonb's binary format.
func (c *copied) noneOrJSONB(v string) {
	if v == "" {
		c.null()
		return
	}
	c.length(1 + len(v))
	c.buf = append(append(c.buf, 1), v...)
}

// epoch is the zero of a timestamptz, in microseconds since 1970.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (c *copied) noneOrTime(v pgtype.Timestamptz) {
	switch {
	case !v.Valid:
		c.null()
	case v.InfinityModifier == pgtype.Infinity:
		c.int8(math.MaxInt64)
	case v.InfinityModifier == pgtype.NegativeInfinity:
		c.int8(math.MinInt64)
	default:
		c.int8(v.Time.UnixMicro() - epoch)
	}
}
