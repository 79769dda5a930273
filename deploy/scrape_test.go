package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// faults are matchers of labels whose series appear with a fault only, and the
// fault. Everything else that a rule or the dashboard names is in the scrape.
var faults = map[string]string{
	`code=~"Internal|Unknown|Unavailable|DataLoss"`: "calls that fail for reasons of the server's",
}

// serversOnly are figures of LAUNCH_QUEUE=redis and of Postgres.
var serversOnly = regexp.MustCompile(`^carillon_(launch_queue|history)_`)

// targetLabels come from Prometheus, not from the process.
var targetLabels = []string{"job", "instance", "alertname", "alertstate", "severity"}

var (
	metricName = regexp.MustCompile(`\b(?:carillon|process)_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`((?:carillon|process)_[a-z0-9_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(=~|!=|!~|=)"([^"]*)"`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	sample     = regexp.MustCompile(`(?m)^([a-z][a-zA-Z0-9_]*)(?:\{(.*)\})? \S+$`)
)

func matches(pattern, text string) bool {
	return regexp.MustCompile(`(?m)^` + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(pattern)).MatchString(text)
}

// shown is what a scrape has: metric → label → its values.
type shown map[string]map[string]map[string]bool

func read(scrapes []string) shown {
	all := make(shown)
	for _, text := range scrapes {
		for _, line := range sample.FindAllStringSubmatch(text, -1) {
			if all[line[1]] == nil {
				all[line[1]] = make(map[string]map[string]bool)
			}
			for _, label := range matcher.FindAllStringSubmatch(line[2], -1) {
				if all[line[1]][label[1]] == nil {
					all[line[1]][label[1]] = make(map[string]bool)
				}
				all[line[1]][label[1]][label[3]] = true
			}
		}
	}
	return all
}

// lacks lists what a query names and the scrape does not have.
func (s shown) lacks(query string) []string {
	var out []string
	labels := make(map[string]bool)
	names := metricName.FindAllString(query, -1)
	for _, name := range names {
		if s[name] == nil {
			out = append(out, name)
		}
		for label := range s[name] {
			labels[label] = true
		}
	}
	for _, found := range selector.FindAllStringSubmatch(query, -1) {
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			if slices.Contains(targetLabels, m[1]) || faults[m[0]] != "" || s[found[1]] == nil {
				continue
			}
			value := regexp.MustCompile("^(?:" + m[3] + ")$")
			if m[2] == "=" {
				value = regexp.MustCompile("^" + regexp.QuoteMeta(m[3]) + "$")
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(s[found[1]][m[1]])), value.MatchString) {
				out = append(out, found[1]+"{"+m[0]+"}")
			}
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(group[1], ", ") {
			if len(names) > 0 && len(labels) > 0 && !labels[label] && !slices.Contains(targetLabels, label) {
				out = append(out, "label "+label)
			}
		}
	}
	return out
}

// queries are those of dashboard and rules, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := dashboardQueries(t)
	for _, r := range rules(t) {
		all["rule "+r.Alert+r.Record] = r.Expr
	}
	return all
}

func TestDashboardAndRulesNameWhatARealProcessShows(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work(t)
	scrapes := s.scrapes(t)
	has := read(scrapes)
	for where, query := range queries(t) {
		for _, what := range has.lacks(query) {
			if len(s.apps) == 1 && serversOnly.MatchString(what) {
				t.Logf("not looked at, for want of servers: %s: %s", where, what)
				continue
			}
			t.Errorf("%s: no process shows %s\n%s", where, what, query)
		}
	}
	for _, text := range scrapes {
		command := promtool(t, "check", "metrics")
		command.Stdin = strings.NewReader(text)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
}

// TestEveryFigureIsOnTheDashboardOrInARule keeps new metrics from being
// forgotten.
func TestEveryFigureIsOnTheDashboardOrInARule(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work(t)
	asked := strings.Join(slices.Collect(maps.Values(queries(t))), "\n")
	for name := range read(s.scrapes(t)) {
		family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		if strings.HasPrefix(name, "carillon_") && !regexp.MustCompile(`\b`+family+`(?:_bucket|_count)?\b`).MatchString(asked) {
			t.Errorf("neither dashboard nor rules ask for %s", family)
		}
	}
}

func TestTheReaderOfScrapesSeesWhatIsMissing(t *testing.T) {
	t.Parallel()
	has := read([]string{"carillon_leader{shard=\"0\"} 1\ncarillon_x_bucket{le=\"+Inf\",step=\"plan\"} 3\n"})
	for query, want := range map[string]int{
		`carillon_leader{shard="0"}`:                            0,
		`carillon_leader{shard="1"}`:                            1,
		`carillon_leader{shard=~"1|2"}`:                         1,
		`carillon_gone`:                                         1,
		`sum by (job, step) (rate(carillon_x_bucket[5m]))`:      0,
		`sum by (reason) (rate(carillon_x_bucket[5m]))`:         1,
		`carillon_leader > on (job, color) carillon_leader > 1`: 1,
	} {
		if got := has.lacks(query); len(got) != want {
			t.Errorf("%s lacks %v, want %d", query, got, want)
		}
	}
}
