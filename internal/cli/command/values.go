package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/schedule"
)

// The functions below are for pflag's Func: each parses the text of a flag into a
// field of a request. Without the flag the field stays unset.

// Text sets the text as it is.
func Text(field **string) func(string) error {
	return func(s string) error {
		*field = &s
		return nil
	}
}

// FairKey takes the text as it is. An empty one would be the default without saying so.
func FairKey(field *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return errors.New(schedule.FairKeyHint)
		}
		*field = s
		return nil
	}
}

// Millis parses a duration such as 30s or 2h into milliseconds.
func Millis(field **uint32) func(string) error {
	return func(s string) error {
		d, err := ParseDuration(s)
		if err != nil {
			return err
		}
		ms := d / time.Millisecond
		if d%time.Millisecond != 0 || ms < 0 || ms > math.MaxUint32 {
			return fmt.Errorf("write a whole number of milliseconds from 0 to %s", time.Duration(math.MaxUint32)*time.Millisecond)
		}
		n := uint32(ms)
		*field = &n
		return nil
	}
}

// Uint32 parses a whole number from 0.
func Uint32(field **uint32) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return errors.New("write a whole number from 0 up")
		}
		n32 := uint32(n)
		*field = &n32
		return nil
	}
}

// Int32 parses a whole number.
func Int32(field **int32) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return errors.New("write a whole number")
		}
		n32 := int32(n)
		*field = &n32
		return nil
	}
}

// Bool parses true or false.
func Bool(field **bool) func(string) error {
	return func(s string) error {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("write true or false")
		}
		*field = &b
		return nil
	}
}

// Label parses NAME=VALUE and adds it.
func Label(field *map[string]string) func(string) error {
	return func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("write NAME=VALUE")
		}
		if *field == nil {
			*field = make(map[string]string)
		}
		(*field)[name] = value
		return nil
	}
}

// Time parses RFC 3339.
func Time(field **timestamppb.Timestamp) func(string) error {
	return func(s string) error {
		t, err := ParseTime(s)
		if err != nil {
			return err
		}
		*field = timestamppb.New(t)
		return nil
	}
}

// TimeFromNow parses RFC 3339, or a duration from now. The time is in the past if
// sign is -1, unless the duration begins with +.
func (c *CLI) TimeFromNow(field **timestamppb.Timestamp, sign time.Duration) func(string) error {
	return func(s string) error {
		t, err := ParseTime(s)
		way := sign
		span, ahead := strings.CutPrefix(s, "+")
		if ahead {
			way = 1
		}
		if d, notSpan := ParseDuration(span); notSpan == nil && d >= 0 {
			t, err = c.Now().Add(way*d).Truncate(time.Second), nil
		}
		if err != nil {
			return errors.New("write a time such as 2026-03-08T14:00:00Z, or a duration such as 2h or 7d")
		}
		*field = timestamppb.New(t)
		return nil
	}
}

// ParseTime parses RFC 3339.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, errors.New("write RFC 3339 with an offset, such as 2026-03-08T14:00:00Z")
	}
	return t, nil
}

// ParseDuration parses the durations of Go, and days: 7d.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * render.Day, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("write a duration such as 500ms, 30s, 2h or 7d")
	}
	return d, nil
}

// Content is the argument itself, or for @FILE the content of the file; @- reads
// standard input.
func (c *CLI) Content(argument string) ([]byte, error) {
	name, isFile := strings.CutPrefix(argument, "@")
	if !isFile {
		return []byte(argument), nil
	}
	text, err := c.ReadFile(name)
	return bytes.TrimSpace(text), err
}

// maxFileBytes is above the size limit of a request.
const maxFileBytes = 4 << 20

// ReadFile reads a file; - is standard input.
func (c *CLI) ReadFile(name string) ([]byte, error) {
	from := c.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxFileBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFileBytes)
	}
	return text, nil
}
