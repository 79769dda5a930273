package api

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/explain"
)

// unparsed matches the gateway's error for a parameter of the wrong type: text of Go's parsers,
// which means nothing to a REST client.
var unparsed = regexp.MustCompile(`(?s)^parsing (?:field|list) "([a-zA-Z0-9_.]+)": (.*)$`)

// unreadable is such a refusal as a body's field would get it; nil for any
// other.
func unreadable(query url.Values, said string) error {
	m := unparsed.FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	value := query.Get(m[1])
	problem, hint := "is not valid for this parameter", ""
	switch {
	case strings.Contains(m[2], "parsing time"):
		problem, hint = unreadableTime(m[1], value)
	case strings.Contains(m[2], "strconv.ParseUint"), strings.Contains(m[2], "strconv.ParseInt"):
		problem = "is not a whole number in the range of this parameter"
	case strings.Contains(m[2], "strconv.ParseBool"):
		problem = "is not true or false"
	}
	var c schedule.Collect
	c.Add(m[1], value, problem, hint)
	return c.Err()
}

// unreadableTime explains an invalid time in a URL: usually it has no offset, or the URL has
// decoded the + of one as a space.
func unreadableTime(name, value string) (problem, hint string) {
	shown, noOffset := explain.ParseReading(value)
	_, blank := time.Parse(time.RFC3339Nano, strings.Replace(value, " ", "+", 1))
	zulu := shown.Format("2006-01-02T15:04:05Z")
	switch {
	case noOffset && name == "time": // of explain, which has another parameter for that
		return "has no offset", "write " + zulu + ", or an offset such as %2B01:00 (+ in a URL) at its end; what the clock of the schedule's zone shows goes into local"
	case noOffset:
		return "has no offset", "write " + zulu + ", or an offset such as %2B01:00 (+ in a URL) at its end"
	case blank == nil:
		return "has a space before its offset", "write %2B for the + in a URL: " + strings.Replace(value, " ", "%2B", 1)
	}
	return "is not a time such as 2026-03-08T14:00:00Z", "write RFC 3339 with an offset: Z, or such as -05:00 or %2B01:00 (+ in a URL)"
}
