package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services/migrated"
)

// seen is an answer of the console.
type seen struct {
	code    int
	header  http.Header
	cookies []*http.Cookie
	text    string
}

// browse makes a request like a browser with the session of who; "" is signed out. A form makes it a
// POST. Redirects are not followed.
func (g *guarded) browse(who, path string, form url.Values, headers ...string) seen {
	g.t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.HTTPAddr()+path, body)
	if err != nil {
		g.t.Fatal(err)
	}
	if who != "" {
		req.AddCookie(&http.Cookie{Name: "carillon_session", Value: g.shown(who)})
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return seen{resp.StatusCode, resp.Header, resp.Cookies(), string(text)}
}

// main is the page without header, navigation and footer.
func (s seen) main() string {
	_, text, _ := strings.Cut(s.text, "<main")
	text, _, _ = strings.Cut(text, "</main>")
	return text
}

// register creates a schedule of ada with a run, and returns the run's key.
func (g *guarded) register(id, body string) (key string) {
	g.t.Helper()
	if code, answer := g.send("compiler", "PUT", "/v1/schedules/"+id, body); code != http.StatusOK {
		g.t.Fatal(answer)
	}
	code, answer := g.send("operator", "POST", "/v1/schedules/"+id+":trigger", `{"overlap_policy":"allow"}`)
	var triggered struct {
		Run struct {
			Key string `json:"idempotency_key"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &triggered); err != nil || code != http.StatusOK {
		g.t.Fatal(code, answer, err)
	}
	return triggered.Run.Key
}

// onBothStores runs a test on SQLite and Postgres in parallel.
func onBothStores(t *testing.T, test func(t *testing.T, g *guarded)) {
	onBothStoresWith(t, nil, test)
}

func onBothStoresWith(t *testing.T, settings map[string]any, test func(t *testing.T, g *guarded)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, newGuarded(t, settings))
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		all := maps.Clone(settings)
		if all == nil {
			all = make(map[string]any)
		}
		all["database_url"] = migrated.Postgres(t)
		test(t, newGuarded(t, all))
	})
}

const hourly = `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 * * * *","timezone":"Europe/Berlin","labels":{"team":"reports"}}`

// inline finds scripts and styles that the Content-Security-Policy blocks.
var inline = regexp.MustCompile(`(?i)<script>|<script [^>]*[^>"]>[^<]|<style| style="| on[a-z]+="|javascript:|https?://[^1]`)

func TestEveryPageOfTheConsoleIsThereOnBothStores(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		key := g.register("reports.hourly", hourly)
		for _, test := range []struct{ path, want string }{
			{"/", "reports.hourly"},
			{"/ui/schedules", "team=reports"},
			{"/ui/schedules?q=REPORTS", "reports.hourly"},
			{"/ui/schedules?q=nowhere", "No matches"},
			{"/ui/schedules?state=paused", "No matches"},
			{"/ui/schedules?label=team%3Dreports&owner=ada&workflow=w", "reports.hourly"},
			{"/ui/schedules/reports.hourly", "Europe/Berlin"},
			{"/ui/schedules/reports.hourly/history", "Revision 1"},
			{"/ui/schedules/reports.hourly/year", "1 runs"},
			{"/ui/schedules/reports.hourly/explain", "Enter any time"},
			{"/ui/schedules/reports.hourly/explain?time=2020-01-01T00%3A00", "no schedule"},
			{"/ui/schedules/reports.hourly/explain?time=2090-01-01T13%3A00", "will fire"},
			{"/ui/schedules/reports.hourly/explain?time=2090-01-01T13%3A07", "not a slot"},
			{"/ui/schedules/reports.hourly/backfills", "No backfill yet"},
			{"/ui/runs", key[:10]},
			{"/ui/runs?status=FAILED", "No matching runs"},
			{"/ui/runs?dead=yes", "No matching runs"},
			{"/ui/runs/redrive", "No dead run matches"},
			{"/ui/runs?schedule=reports.hourly&from=2020-01-01&to=2099-01-01T00%3A00", key[:10]},
			{"/ui/runs/" + key, key},
			{"/ui/preview", "Write a rule"},
			{"/ui/preview?cron=30+2+*+*+*&zone=America/New_York&from=2027-03-14T00:00", "Sun 14 Mar 2027, 03:00:00 -04:00"},
			{"/ui/preview?kind=interval&interval=90s&zone=UTC", "every 1 minute 30 seconds"},
			{"/ui/timeline", "reports.hourly"},
			{"/ui/workers", "healthy"},
			{"/ui/alerts", "No open alerts"},
			{"/ui/alerts?schedule=none&kind=start", "No matches"},
			{"/ui/simulate", "Name a schedule"},
			{"/ui/simulate?schedule=reports.hourly&zone=UTC&from=2027-03-01T00:00&until=2027-03-01T06:00&duration=1m", "Mon 2027-03-01 01:00 &#43;01:00"},
			{"/ui/simulate?kind=pasted&from=2027-03-01T00:00:00Z&until=2027-03-01T01:00:00Z&pasted=" + url.QueryEscape("- cron_expr: '*/30 * * * *'\n  labels: {a: b}\n"), "<code>labels</code>"},
		} {
			got := g.browse("operator", test.path, nil)
			if got.code != http.StatusOK || !strings.Contains(got.text, test.want) {
				t.Errorf("%s answers %d without %q:\n%s", test.path, got.code, test.want, got.main())
			}
			policy := got.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s allows %q", test.path, policy)
			}
			if found := inline.FindString(got.text); found != "" {
				t.Errorf("%s holds %q, which the policy of content stops", test.path, found)
			}
		}
	})
}

func TestRefusalsAreShownAsText(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	key := g.register("reports.hourly", hourly)
	for _, test := range []struct {
		name, who, path string
		form            url.Values
		code            int
		want            string
	}{
		{"a schedule that never was", "operator", "/ui/schedules/none", nil, 404, "Not found"},
		{"a page that never was", "operator", "/ui/none", nil, 404, "there is no page"},
		{"a run's key that is none", "operator", "/ui/runs/abc", nil, 422, "idempotency_key"},
		{"a rule that cannot be, with the field", "operator", "/ui/preview?cron=61+*+*+*+*", nil, 200, "<code>cron_expr</code>"},
		{"a zone that is none", "operator", "/ui/preview?cron=1+*+*+*+*&zone=Mars", nil, 200, "<code>timezone</code>"},
		{"a length that is none", "operator", "/ui/preview?kind=interval&interval=soon", nil, 200, "<code>interval_ms</code>"},
		{"an instant that is none", "operator", "/ui/runs?from=yesterday", nil, 422, "yesterday"},
		{"a state that is none", "operator", "/ui/schedules?state=angry", nil, 422, "state"},
		{"a time to explain that is none", "operator", "/ui/schedules/reports.hourly/explain?time=then", nil, 200, "is not a date and time"},
		{"a time that the clock does not exist in", "operator", "/ui/schedules/reports.hourly/explain?time=2027-03-28T02%3A30", nil, 200, "does not exist in"},
		{"an alert that never was", "operator", "/ui/alerts/none", nil, 404, "there is no alert"},
		{"a kind of promise that is none", "operator", "/ui/alerts?kind=hope", nil, 422, "kind"},
		{"messages for who owns schedules only, in their part", "user", "/ui/alerts", nil, 200, "ListAlertDeliveries is for the roles"},
		{"a message that never was", "operator", "/ui/messages/none/redeliver", url.Values{}, 404, "there is no delivery"},
		{"a message sent again by who may only look", "viewer", "/ui/messages/none/redeliver", url.Values{}, 403, "RedeliverAlert is for the roles"},
		{"all messages sent again, for who owns schedules only", "user", "/ui/messages/redeliver", url.Values{}, 403, "ListAlertDeliveries is for the roles"},
		{"all messages sent again, where there are none", "operator", "/ui/messages/redeliver", url.Values{}, 200, "0 notifications sent again"},
		{"a test message where none can be sent", "operator", "/ui/alerts/test", url.Values{}, 409, "ALERT_WEBHOOK_URL"},
		{"a simulation of a schedule that never was", "operator", "/ui/simulate?schedule=none", nil, 200, "Not found"},
		{"a simulation of another owner's", "bob", "/ui/simulate?schedule=reports.hourly", nil, 200, "Not found"},
		{"a simulation of more slots than are played", "operator", "/ui/simulate?kind=interval&interval=1s&zone=UTC&from=2027-03-01T00:00&until=2027-03-01T03:00", nil, 200, "10799 slots, more than 10000"},
		{"a simulation of more than a year", "operator", "/ui/simulate?kind=cron&cron=0+0+1+*+*&from=2027-03-01&until=2028-03-03", nil, 200, "more than 366 days"},
		{"an outage outside of the window, by its place", "operator", "/ui/simulate?kind=cron&cron=0+*+*+*+*&from=2027-03-01&until=2027-03-02&outages=2027-02-01/1h", nil, 200, "<code>outages[0].from</code>"},
		{"an outage that cannot be read", "operator", "/ui/simulate?kind=cron&cron=0+*+*+*+*&outages=lunch", nil, 200, "write 2027-03-01T01:00 / 2h"},
		{"more failures than runs, beside the field", "operator", "/ui/simulate?kind=cron&cron=0+*+*+*+*&failures=101", nil, 200, "<code>schedules[0].run.failure_percent</code>"},
		{"pasted text that is no definition", "operator", "/ui/simulate?kind=pasted&pasted=hello", nil, 200, "is not a schedule definition"},
		{"a pasted rule that cannot be", "operator", "/ui/simulate?kind=pasted&pasted=cron_expr:+61+*+*+*+*", nil, 200, "<code>schedules[0].cron_expr</code>"},
		{"a page of nothing", "operator", "/ui/runs?page_token=x", nil, 422, "page_token"},
		{"a pause by who may only look", "viewer", "/ui/schedules/reports.hourly/pause", url.Values{"note": {"x"}}, 403, "PauseSchedule is for the roles"},
		{"workers for who owns schedules only", "user", "/ui/workers", nil, 403, "ListWorkers is for the roles"},
		{"the overview for the same, with that in its part", "user", "/", nil, 200, "ListWorkers is for the roles"},
		{"a cancel by who may only look", "viewer", "/ui/runs/" + key + "/cancel", url.Values{}, 403, "CancelRun is for the roles"},
		{"a pause until nobody knows when", "operator", "/ui/schedules/reports.hourly/pause", url.Values{"until_at": {"later"}}, 422, "until"},
		{"input that is no JSON", "operator", "/ui/schedules/reports.hourly/trigger", url.Values{"input": {"{"}}, 422, "input"},
		{"a second run beside one in flight", "operator", "/ui/schedules/reports.hourly/trigger", url.Values{}, 409, "in flight"},
		{"a retry of a run that goes on", "operator", "/ui/runs/" + key + "/retry", url.Values{}, 409, "Not possible now"},
		{"many, none of them ticked", "operator", "/ui/schedules", url.Values{"do": {"pause"}}, 422, "no schedule is selected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := g.browse(test.who, test.path, test.form)
			if got.code != test.code || !strings.Contains(got.text, test.want) {
				t.Errorf("%d without %q, want %d:\n%s", got.code, test.want, test.code, got.main())
			}
		})
	}
	if _, answer := g.send("operator", "GET", "/v1/schedules/reports.hourly", ""); !strings.Contains(answer, `"paused":false`) {
		t.Error("one of the refused calls has paused the schedule:", answer)
	}
}

func TestActionsOfTheConsoleTakeEffectAndAreAudited(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("a", hourly)
		g.register("b", hourly)
		got := g.browse("operator", "/ui/schedules/a/pause", url.Values{"note": {"moving house"}, "until": {"2h"}}, "HX-Request", "true")
		if got.code != http.StatusOK || !strings.Contains(got.text, "Paused a") || strings.Contains(got.text, "<html") || got.header.Get("HX-Trigger") == "" {
			t.Errorf("pause: %d %v %s", got.code, got.header, got.text)
		}
		if page := g.browse("viewer", "/ui/schedules/a", nil).text; !strings.Contains(page, "moving house") || !strings.Contains(page, "subject-operator") {
			t.Error("the page of a paused schedule does not say by whom and why:", page)
		}
		many := g.browse("operator", "/ui/schedules", url.Values{"do": {"resume"}, "id": {"a", "b", "none"}})
		if !strings.Contains(many.text, "Resumed 2 schedules") || !strings.Contains(many.text, "none") {
			t.Errorf("resume many: %d %s", many.code, many.text)
		}
		run := g.browse("operator", "/ui/schedules/a/trigger", url.Values{"overlap_policy": {"allow"}, "request_id": {"once"}, "input": {`{"x":1}`}})
		link := regexp.MustCompile(`/ui/runs/([0-9a-f]{64})`).FindStringSubmatch(run.text)
		if link == nil {
			t.Fatalf("trigger: %d %s", run.code, run.text)
		}
		if again := g.browse("operator", "/ui/schedules/a/trigger", url.Values{"overlap_policy": {"allow"}, "request_id": {"once"}, "input": {`{"x":1}`}}); !strings.Contains(again.text, link[1]) {
			t.Error("the same form sent twice made another run:", again.text)
		}
		if cancelled := g.browse("operator", "/ui/runs/"+link[1]+"/cancel", url.Values{"note": {"enough"}}); cancelled.code != http.StatusOK && cancelled.code != http.StatusConflict {
			t.Errorf("cancel: %d %s", cancelled.code, cancelled.text)
		}
		_, trail := g.send("operator", "GET", "/v1/audit", "")
		for _, want := range []string{"PauseSchedule", "ResumeSchedule", "TriggerSchedule", "subject-operator"} {
			if !strings.Contains(trail, want) {
				t.Errorf("the audit trail lacks %s: %s", want, trail)
			}
		}
	})
}

func TestABackfillIsPreviewedStartedAndCancelledInTheConsole(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.register("a", `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 * * * *","timezone":"Europe/Berlin"}`)
		form := url.Values{"from": {"2026-01-05T00:00"}, "to": {"2026-01-05T05:00"}, "reprocess": {"all"}, "dry_run": {"1"}}
		if got := g.browse("user", "/ui/schedules/a/backfill", form, "HX-Request", "true"); !strings.Contains(got.text, "Would run 5 of the 5 slots") || got.header.Get("HX-Trigger") != "" {
			t.Errorf("dry run: %d %v %s", got.code, got.header, got.text)
		}
		if got := g.browse("user", "/ui/schedules/a/backfills", nil); !strings.Contains(got.text, "No backfill yet") {
			t.Error("a dry run has left something:", got.main())
		}
		if got := g.browse("viewer", "/ui/schedules/a/backfill", form); got.code != http.StatusForbidden {
			t.Errorf("as a viewer: %d", got.code)
		}
		if got := g.browse("bob", "/ui/schedules/a/backfill", form); got.code != http.StatusNotFound {
			t.Errorf("as another owner: %d", got.code)
		}
		for field, bad := range map[string]string{"from": "soon", "concurrency": "many", "rate_per_minute": "-1", "order": "sideways"} {
			broken := url.Values{"from": {"2026-01-05T00:00"}, "to": {"2026-01-05T05:00"}}
			broken.Set(field, bad)
			if got := g.browse("user", "/ui/schedules/a/backfill", broken); got.code != http.StatusUnprocessableEntity || !strings.Contains(got.text, field) {
				t.Errorf("%s %q: %d %s", field, bad, got.code, got.main())
			}
		}
		form.Del("dry_run")
		form.Set("overlap_policy", "queue") // after the run of register, which does not end
		if got := g.browse("user", "/ui/schedules/a/backfill", form); got.code != http.StatusOK || !strings.Contains(got.text, "Backfill started") {
			t.Fatalf("start: %d %s", got.code, got.main())
		}
		list := g.browse("user", "/ui/schedules/a/backfills", nil)
		path := regexp.MustCompile(`/ui/backfills/[^/"]+`).FindString(list.text)
		if path == "" || !strings.Contains(list.text, "5 slots") {
			t.Fatal("it is not listed:", list.main())
		}
		for _, verb := range []struct{ name, want string }{{"pause", "paused"}, {"resume", "running"}, {"cancel", "cancelled"}} {
			if got := g.browse("bob", path+"/"+verb.name, url.Values{}); got.code != http.StatusNotFound {
				t.Errorf("%s by another owner: %d", verb.name, got.code)
			}
			if got := g.browse("user", path+"/"+verb.name, url.Values{}); got.code != http.StatusOK {
				t.Errorf("%s: %d %s", verb.name, got.code, got.main())
			}
			if now := g.browse("user", "/ui/schedules/a/backfills", nil); !strings.Contains(now.text, verb.want+"</span>") {
				t.Errorf("after %s: %s", verb.name, now.main())
			}
		}
	})
}

func TestTheConsoleHidesRowsOfOtherOwners(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		key := g.register("ada.secret", hourly)
		for _, path := range []string{"/ui/schedules/ada.secret", "/ui/schedules/ada.secret/history", "/ui/schedules/ada.secret/explain?time=2090-01-01T13:00:00Z", "/ui/runs/" + key} {
			foreign, absent := g.browse("bob", path, nil), g.browse("bob", strings.NewReplacer("ada.secret", "never.was", key, strings.Repeat("0", 64)).Replace(path), nil)
			if foreign.code != http.StatusNotFound || absent.code != http.StatusNotFound {
				t.Errorf("%s answers %d to another owner, and %d where there is nothing", path, foreign.code, absent.code)
			}
		}
		for _, path := range []string{"/", "/ui/schedules", "/ui/runs", "/ui/timeline", "/ui/schedules?q=secret", "/ui/schedules/ada.secret/year"} {
			if got := g.browse("bob", path, nil); strings.Count(got.text, "ada.secret") > strings.Count(path, "ada.secret")*20 || strings.Contains(got.text, key[:10]) {
				t.Errorf("%s shows another owner's: %s", path, got.main())
			}
			if got := g.browse("user", path, nil); path != "/ui/schedules/ada.secret/year" && !strings.Contains(got.text, "ada.secret") {
				t.Errorf("%s does not show the owner its own: %s", path, got.main())
			}
		}
		for _, path := range []string{"/ui/schedules/ada.secret/pause", "/ui/schedules/ada.secret/trigger", "/ui/runs/" + key + "/cancel", "/ui/runs/" + key + "/retry"} {
			if got := g.browse("bob", path, url.Values{}); got.code != http.StatusNotFound {
				t.Errorf("%s answers %d to another owner: %s", path, got.code, got.main())
			}
		}
	})
}

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	const evil = `"'><img src=x onerror=alert(1)><script>alert(2)</script>{{.}}`
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	key := g.register("a", `{"workflow_id":"w","version":1,"user_id":"ada","cron_expr":"0 * * * *","labels":{"l":`+string(text)+`},"input":{"x":`+string(text)+`}}`)
	g.send("operator", "POST", "/v1/schedules/a:pause", `{"note":`+string(text)+`}`)
	g.send("launcher", "POST", "/v1/runs/"+key+":report", `{"status":"FAILED","run_id":"r","error_message":`+string(text)+`}`)
	q := url.QueryEscape(evil)
	for _, path := range []string{
		"/", "/ui/schedules", "/ui/schedules/a", "/ui/schedules/a/history", "/ui/schedules/a/year", "/ui/schedules/a/explain?time=2090-01-01T13:00:00Z", "/ui/schedules/a/explain?time=" + url.QueryEscape(`"><img src=x>`), "/ui/runs", "/ui/runs/" + key,
		"/ui/schedules?q=" + q, "/ui/schedules?owner=" + q, "/ui/schedules/" + url.PathEscape(evil), "/ui/runs?from=" + q, "/ui/runs?schedule=" + q, "/ui/runs/redrive?owner=" + q, "/ui/runs/redrive?from=" + q,
		"/ui/alerts?schedule=" + q, "/ui/alerts/" + url.PathEscape(evil), "/ui/simulate?schedule=" + q, "/ui/simulate?kind=pasted&pasted=" + q, "/ui/simulate?kind=pasted&pasted=" + url.QueryEscape("? "+string(text)+"\n: 1"), "/ui/simulate?kind=cron&cron=" + q + "&outages=" + q,
		"/ui/preview?cron=" + q, "/ui/preview?zone=" + q + "&cron=1", "/ui/preview?kind=" + q, "/ui/signin?next=" + q, "/ui/timeline?label=" + q, "/ui/" + url.PathEscape(evil),
	} {
		got := g.browse("operator", path, nil)
		if strings.Contains(got.text, "<img") || strings.Contains(got.text, "<script>") || strings.Contains(got.text, `"'>`) {
			t.Errorf("%s answers %d with markup of others:\n%s", path, got.code, got.main())
		}
	}
}

func TestSigningInWithATokenAndOut(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	if got := g.browse("", "/ui/runs?status=FAILED", nil); got.code != http.StatusSeeOther || got.header.Get("Location") != "/ui/signin?next=%2Fui%2Fruns%3Fstatus%3DFAILED" {
		t.Errorf("without a token: %d %v", got.code, got.header)
	}
	if got := g.browse("", "/", nil, "Sec-Fetch-Site", "cross-site"); got.code != http.StatusOK || !strings.Contains(got.text, `http-equiv="refresh"`) {
		t.Errorf("by a link of another site, without the cookie: %d %s", got.code, got.text)
	}
	for _, bad := range []string{"", "nonsense", strings.Repeat("a", 64), strings.Repeat("x", 5000), "car_x; Path=/"} {
		if got := g.browse("", "/ui/signin", url.Values{"token": {bad}}); got.code != http.StatusUnauthorized || len(got.cookies) > 0 {
			t.Errorf("the token %.20q: %d, cookies %v", bad, got.code, got.cookies)
		}
	}
	for next, want := range map[string]string{
		"/ui/runs?status=FAILED": "/ui/runs?status=FAILED", "//evil.example/ui/": "/", "https://evil.example/ui/": "/", `/\evil.example`: "/", "/v1/runs": "/", "": "/",
	} {
		got := g.browse("", "/ui/signin", url.Values{"token": {" Bearer " + g.tokens["viewer"] + "\n"}, "next": {next}})
		if got.code != http.StatusSeeOther || got.header.Get("Location") != want || len(got.cookies) != 1 {
			t.Fatalf("next %q: %d to %q with %v, want %q", next, got.code, got.header.Get("Location"), got.cookies, want)
		}
		if c := got.cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Value != g.tokens["viewer"] {
			t.Errorf("the cookie is %v", c)
		}
	}
	if got := g.browse("viewer", "/", nil); got.code != http.StatusOK || !strings.Contains(got.text, "subject-viewer") || strings.Contains(got.text, g.tokens["viewer"]) {
		t.Errorf("signed in: %d %s", got.code, got.text)
	}
	if code, _ := g.send("", "GET", "/v1/schedules", "", "Cookie", "carillon_session="+g.tokens["operator"]); code != http.StatusUnauthorized {
		t.Errorf("REST takes the console's cookie: %d", code)
	}
	if got := g.browse("viewer", "/ui/signout", url.Values{}); len(got.cookies) != 1 || got.cookies[0].MaxAge >= 0 {
		t.Errorf("signed out with %v", got.cookies)
	}
	if strings.Contains(g.logged(), g.tokens["viewer"]) {
		t.Error("the token is in the log")
	}
}

func TestPagesOfOtherSitesCannotCallTheConsole(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	g.register("a", hourly)
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		for _, path := range []string{"/ui/schedules/a/pause", "/ui/schedules", "/ui/signin", "/ui/signout"} {
			if got := g.browse("operator", path, url.Values{"do": {"pause"}, "id": {"a"}}, headers...); got.code != http.StatusForbidden || len(got.cookies) > 0 {
				t.Errorf("%s with %v: %d", path, headers, got.code)
			}
		}
	}
	if _, answer := g.send("operator", "GET", "/v1/schedules/a", ""); !strings.Contains(answer, `"paused":false`) {
		t.Error("it was paused:", answer)
	}
}

func TestLiveUpdatesReportChangedRuns(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		if got := g.browse("", "/ui/live", nil); got.code != http.StatusUnauthorized {
			t.Errorf("live updates for nobody: %d", got.code)
		}
		g.register("a", hourly)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.HTTPAddr()+"/ui/live?schedule=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "carillon_session", Value: g.tokens["user"]})
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Fatalf("%s %s", resp.Status, kind)
		}
		var said bytes.Buffer
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if lines.Text() == "event: open" {
				g.register("b", hourly) // of another schedule: not reported
				g.register("a", hourly)
			}
			if strings.Contains(lines.Text(), `"schedule":"a"`) {
				break
			}
		}
		if text := said.String(); !strings.Contains(text, "event: run") || strings.Contains(text, `"schedule":"b"`) {
			t.Errorf("heard:\n%s", text)
		}
	})
}
