package notify

import (
	"slices"

	"github.com/carillon/carillon/internal/schedule"
)

// Routes are the routes of the operator's file.
type Routes struct {
	targets []Target
	always  []string // the targets of ALERT_WEBHOOK_URL: they get every message
	routes  []route  // the first that matches decides, and those after it if it continues
	rest    []string // where no route matches

	grouping Grouping
}

// Alert is what routes match.
type Alert struct {
	Labels   map[string]string // of the schedule
	Owner    string
	Severity Severity
	Kind     schedule.ExpectationKind
}

type route struct {
	match   matcher
	to      []string
	onwards bool
}

// matcher holds conditions that must all be true; one that is empty always is.
type matcher struct {
	labels     map[string][]string // values; "*" is any
	owners     []string
	severities []string
	kinds      []string
}

func (m *matcher) matches(a Alert) bool {
	is := func(words []string, word string) bool { return len(words) == 0 || slices.Contains(words, word) }
	for name, values := range m.labels {
		value, found := a.Labels[name]
		if !found || !slices.Contains(values, anyValue) && !slices.Contains(values, value) {
			return false
		}
	}
	return is(m.owners, a.Owner) && is(m.severities, string(a.Severity)) && is(m.kinds, string(a.Kind))
}

const anyValue = "*"

// For are the targets of an alert, each once.
func (r *Routes) For(a Alert) []string {
	to := slices.Clone(r.always)
	add := func(names []string) {
		for _, name := range names {
			if !slices.Contains(to, name) {
				to = append(to, name)
			}
		}
	}
	matched := false
	for i := range r.routes {
		if !r.routes[i].match.matches(a) {
			continue
		}
		matched = true
		add(r.routes[i].to)
		if !r.routes[i].onwards {
			break
		}
	}
	if !matched {
		add(r.rest)
	}
	return to
}

// Grouping is the grouping of messages to people.
func (r *Routes) Grouping() Grouping { return r.grouping }

// Targets are all that there are.
func (r *Routes) Targets() []Target { return r.targets }

// Target is the target with this id; nil: unknown.
func (r *Routes) Target(id string) *Target {
	for i := range r.targets {
		if r.targets[i].ID == id {
			return &r.targets[i]
		}
	}
	return nil
}
