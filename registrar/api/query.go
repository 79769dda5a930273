package api

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// unparsed is what the gateway says of a parameter whose type its text does not
// fit: the words of Go's own parsers, which mean nothing to whoever calls REST.
var unparsed = regexp.MustCompile(`(?s)^parsing (?:field|list) "([a-zA-Z0-9_.]+)": (.*)$`)

// unreadable is such a refusal as a body's field would get it; nil for any
// other.
func unreadable(query url.Values, said string) error {
	m := unparsed.FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	problem := "is not what this parameter takes"
	switch {
	case strings.Contains(m[2], "parsing time"):
		problem = "is not a time such as 2026-03-08T14:00:00Z"
	case strings.Contains(m[2], "strconv.ParseUint"), strings.Contains(m[2], "strconv.ParseInt"):
		problem = "is not a whole number that this parameter takes"
	case strings.Contains(m[2], "strconv.ParseBool"):
		problem = "is not true or false"
	}
	var c schedule.Collect
	c.Add(m[1], query.Get(m[1]), problem, "")
	return c.Err()
}
