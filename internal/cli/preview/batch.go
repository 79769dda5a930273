package preview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// maxLine is the limit of one line of a batch, in bytes.
const maxLine = 1 << 20

// answerBatch answers every line of in with one line, in the same order. An invalid
// line is answered with an error. Only reading and writing can fail.
func answerBatch(in io.Reader, out io.Writer, now func() time.Time) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	answers := bufio.NewWriterSize(out, 64<<10)
	b := batch{now: now, expressions: make(map[string]*cronexpr.Expr)}
	for {
		// A caller may wait for an answer before it writes the next line: flush before
		// a read that may block.
		if !wholeLineBuffered(lines) {
			if err := answers.Flush(); err != nil {
				return fmt.Errorf("write the answers: %w", err)
			}
		}
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return answers.Flush()
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return errors.Join(fmt.Errorf("read the questions: %w", err), answers.Flush())
		}
		if err == nil {
			b.answer = b.answer[:0]
			err = b.line(line)
		}
		if err != nil {
			b.answer = errorLine(b.answer[:0], err)
		}
		if _, err := answers.Write(append(b.answer, '\n')); err != nil {
			return fmt.Errorf("write the answers: %w", err)
		}
	}
}

func wholeLineBuffered(lines *bufio.Reader) bool {
	buffered, _ := lines.Peek(lines.Buffered()) // never fails: this much is buffered
	return bytes.IndexByte(buffered, '\n') >= 0
}

var errLongLine = fmt.Errorf("the line has more than %d bytes", maxLine)

// readLine returns the next line without its line feed, which the last line need not
// have. A line longer than maxLine is skipped and refused.
func readLine(lines *bufio.Reader) ([]byte, error) {
	line, err := lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line)
	}
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = lines.ReadSlice('\n')
		if long = long || len(line)+len(more) > maxLine+1; !long {
			line = append(line, more...)
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if long || len(line) > maxLine {
		return nil, errLongLine
	}
	return line, nil
}

// batch is the state that lines share: parsed expressions and a buffer.
type batch struct {
	now         func() time.Time
	expressions map[string]*cronexpr.Expr
	answer      []byte
}

// question is one line. null counts as missing.
type question struct {
	Expr  *string `json:"expr"`
	TZ    *string `json:"tz"`
	After *string `json:"after"`
	Count *int    `json:"count"`
	DST   *string `json:"dst"`
}

// line writes {"times": […]} for one line.
func (b *batch) line(line []byte) error {
	var q question
	if err := decodeQuestion(line, &q); err != nil {
		return err
	}
	if q.Expr == nil {
		return errors.New("expr is required")
	}
	timeline, err := b.timeline(&q)
	if err != nil {
		return err
	}
	after, count := b.now(), defaultFires
	if q.After != nil {
		if after, err = time.Parse(time.RFC3339, *q.After); err != nil {
			return fmt.Errorf("after %s is not RFC 3339, such as 2024-03-09T12:00:00Z", schedule.Quote(*q.After))
		}
	}
	if q.Count != nil {
		count = *q.Count
	}
	if count < 0 || count > maxFires {
		return fmt.Errorf("count %d is not within 0 to %d", count, maxFires)
	}
	b.answer = append(b.answer, `{"times":[`...)
	for i := range count {
		next, ok := timeline.Next(after)
		switch {
		case !ok && i == 0:
			return fmt.Errorf("it never fires: %w", cronexpr.ErrNeverFires)
		case !ok: // the end of the calendar
			b.answer = append(b.answer, "]}"...)
			return nil
		case i > 0:
			b.answer = append(b.answer, ',')
		}
		b.answer = append(next.AppendFormat(append(b.answer, '"'), time.RFC3339), '"')
		after = next
	}
	b.answer = append(b.answer, "]}"...)
	return nil
}

func (b *batch) timeline(q *question) (*cronexpr.Timeline, error) {
	zone, dst := time.UTC, cronexpr.Vixie
	if q.DST != nil {
		if dst = cronexpr.DST(*q.DST); dst != cronexpr.Vixie && dst != cronexpr.Literal {
			return nil, fmt.Errorf("dst %s is not a policy; write vixie or literal", schedule.Quote(*q.DST))
		}
	}
	if q.TZ != nil {
		var err error
		if zone, err = cronexpr.LoadLocation(*q.TZ); err != nil {
			return nil, err
		}
	}
	expr, known := b.expressions[*q.Expr]
	if !known {
		var err error
		if expr, err = cronexpr.Parse(*q.Expr); err != nil {
			return nil, err
		}
		const most = 10_000
		if len(b.expressions) >= most {
			clear(b.expressions)
		}
		b.expressions[*q.Expr] = expr
	}
	return expr.In(zone, dst), nil
}

// decodeQuestion refuses unknown members: a mistyped tz would silently be UTC.
func decodeQuestion(line []byte, q *question) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return errors.New(`the line is empty; write {"expr": "…", "tz": "…", "after": "…", "count": 5}`)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(q)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return errors.New("the line is not a JSON object")
	case errors.As(err, &kind):
		expected := "a text"
		if kind.Field == "count" {
			expected = "a whole number"
		}
		return fmt.Errorf("%s is a JSON %s, not %s", kind.Field, kind.Value, expected)
	case errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the line is not JSON: %w", err)
	case err != nil:
		return fmt.Errorf("%w; the line may hold expr, tz, after, count and dst", err)
	}
	if bytes.Equal(bytes.TrimSpace(line), []byte("null")) {
		return errors.New("the line is not a JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the line has text after its JSON object")
	}
	return nil
}

// errorLine writes {"error": "…"}, of bounded length.
func errorLine(to []byte, err error) []byte {
	text, _ := json.Marshal(map[string]string{"error": cutText(err.Error())}) // a string always has a JSON form
	return append(to, text...)
}

// cutText limits the length of a message that may quote the input.
func cutText(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
