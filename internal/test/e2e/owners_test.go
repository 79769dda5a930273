package e2e_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/test/services"
)

// owners are two users and an operator of one process.
type owners struct {
	*testing.T
	ada, eve, operator *rest
	executor           *workbench
}

func onOwners(t *testing.T, test func(*owners)) {
	for name, database := range map[string]func(*testing.T) string{
		"SQLite":   func(*testing.T) string { return "" },
		"Postgres": func(t *testing.T) string { return services.Postgres(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newOwners(t, database(t)))
		})
	}
}

func newOwners(t *testing.T, database string) *owners {
	tokens, lines := make(map[string]string), []string{"tokens:"}
	for _, e := range []tokenfile.Entry{
		{Subject: "ada", Roles: []auth.Role{auth.User}}, {Subject: "eve", Roles: []auth.Role{auth.User}}, {Subject: "op", Roles: []auth.Role{auth.Operator}},
	} {
		token, entry, err := tokenfile.New(e)
		if err != nil {
			t.Fatal(err)
		}
		tokens[e.Subject] = token
		lines = append(lines, entry.Line())
	}
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &workbench{keys: make(map[string]int)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	p := newProcess(t, "carillon", []string{"serve", "--migrate"}, append(settings(database, time.Minute),
		"WORKFLOW_STORE=none", "EXECUTOR=http", "EXECUTOR_URL="+server.URL, "EXECUTOR_TIMEOUT_MS=60000", "AUTH_TOKENS_FILE="+file))
	p.startReady()
	all := newREST(t, p)
	return &owners{T: t, ada: all.as(tokens["ada"]), eve: all.as(tokens["eve"]), operator: all.as(tokens["op"]), executor: b}
}

func (o *owners) enqueue(who *rest, queue, name string) job {
	o.Helper()
	var answer struct {
		Run job `json:"run"`
	}
	who.do("POST", "/v1/queues/"+queue+"/runs", fmt.Sprintf(`{"workflow_id":"w","version":1,"input":{"name":%q}}`, name), &answer)
	return answer.Run
}

func (o *owners) await(names ...string) {
	o.Helper()
	eventually(o.T, startBound, "the executor gets "+strings.Join(names, " "), func() error {
		got := o.executor.got()
		slices.Sort(got)
		if !slices.Equal(got, names) {
			return fmt.Errorf("it got %v", got)
		}
		return nil
	})
}

// waiting is the names of what a caller sees of a queue.
func (o *owners) waiting(who *rest, queue string) (keys []string) {
	o.Helper()
	var answer struct {
		Runs []job `json:"runs"`
	}
	who.do("GET", "/v1/queues/"+queue+"/waiting", nil, &answer)
	for _, w := range answer.Runs {
		keys = append(keys, w.Key)
	}
	return keys
}

// A queue that is not the caller's answers as one that does not exist: the answers are
// compared byte for byte, its name aside.
func TestAPrivateQueueOfAnotherOwnerIsNotThere(t *testing.T) {
	onOwners(t, func(o *owners) {
		goOn := o.executor.stop()
		defer goOn()
		o.ada.do("PUT", "/v1/queues/hers", `{"max_in_flight":1,"user_id":"ada"}`, nil)
		first := o.enqueue(o.ada, "hers", "a1")
		o.await("a1")
		second, third := o.enqueue(o.ada, "hers", "a2"), o.enqueue(o.ada, "hers", "a3")
		const run = `{"workflow_id":"w","version":1}`
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/queues/%s", ""},
			{"GET", "/v1/queues/%s/waiting", ""},
			{"GET", "/v1/queues/%s/events", ""},
			{"GET", "/v1/queues/%s/reservations", ""},
			{"GET", "/v1/queues/%s/runs", ""},
			{"POST", "/v1/queues/%s/runs", run},
			{"POST", "/v1/queues/%s/runs:batch", `{"runs":[` + run + `]}`},
			{"POST", "/v1/queues/%s:pause", `{}`},
			{"POST", "/v1/queues/%s:resume", `{}`},
			{"POST", "/v1/queues/%s:close", `{}`},
			{"POST", "/v1/queues/%s:open", `{}`},
			{"POST", "/v1/queues/%s:reserve", `{}`},
			{"POST", "/v1/queues/%s:redrive", `{}`},
			{"POST", "/v1/queues/%s:simulate", `{}`},
			{"POST", "/v1/groups", `{"group_id":"g","queue_id":"%s","mode":"parallel","runs":[` + run + `]}`},
			{"DELETE", "/v1/queues/%s", ""},
		} {
			say := func(id string) string {
				var body any
				if c.body != "" {
					body = strings.ReplaceAll(c.body, "%s", id)
				}
				status, answer, err := o.eve.call(c.method, strings.ReplaceAll(c.path, "%s", id), body)
				return fmt.Sprintf("%d %s %v", status, strings.ReplaceAll(string(answer), id, "ID"), err)
			}
			if hers, none := say("hers"), say("none"); hers != none {
				o.Errorf("%s %s: a foreign queue answers\n%s\none that does not exist\n%s", c.method, c.path, hers, none)
			}
		}
		unknown := second.Key[:56] + "00000000" // the answer may depend on the form of a key
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/v1/runs/%s", ""},
			{"GET", "/v1/runs/%s:explain", ""},
			{"POST", "/v1/runs/%s:update", `{"priority":5}`},
			{"POST", "/v1/runs/%s:move", `{"to":"last"}`},
			{"POST", "/v1/runs/%s:cancel", `{}`},
			{"POST", "/v1/runs/%s:retry", `{"request_id":"r"}`},
		} {
			say := func(key string) string {
				var body any
				if c.body != "" {
					body = c.body
				}
				status, answer, err := o.eve.call(c.method, strings.ReplaceAll(c.path, "%s", key), body)
				return fmt.Sprintf("%d %s %v", status, strings.ReplaceAll(string(answer), key, "KEY"), err)
			}
			if hers, none := say(second.Key), say(unknown); hers != none || strings.HasPrefix(hers, "200") {
				o.Errorf("%s %s: a foreign run answers\n%s\none that does not exist\n%s", c.method, c.path, hers, none)
			}
		}
		if got := o.waiting(o.ada, "hers"); !slices.Equal(got, []string{second.Key, third.Key}) {
			o.Errorf("afterwards %v wait", got)
		}
		// Eve does not wait for ada's run, which is open.
		o.eve.do("PUT", "/v1/queues/eves", `{"max_in_flight":1,"user_id":"eve"}`, nil)
		o.enqueue(o.eve, "eves", "e1")
		o.await("a1", "e1")
		var listed struct {
			Queues []struct {
				ID string `json:"queue_id"`
			} `json:"queues"`
		}
		o.eve.do("GET", "/v1/queues", nil, &listed)
		if len(listed.Queues) != 1 || listed.Queues[0].ID != "eves" {
			o.Errorf("eve's queues are %+v", listed.Queues)
		}
		goOn()
		o.await("a1", "a2", "a3", "e1")
		eventually(o.T, startBound, "ada's first run ends", func() error {
			var answer struct {
				Run job `json:"run"`
			}
			if o.ada.do("GET", "/v1/runs/"+first.Key, nil, &answer); answer.Run.Status != "SUCCESS" {
				return fmt.Errorf("it is %s", answer.Run.Status)
			}
			return nil
		})
	})
}

func TestInASharedQueueEachOwnerSeesItsOwn(t *testing.T) {
	onOwners(t, func(o *owners) {
		goOn := o.executor.stop()
		defer goOn()
		o.operator.do("PUT", "/v1/queues/all", `{"max_in_flight":1,"user_id":"op","shared":true}`, nil)
		o.enqueue(o.ada, "all", "a1")
		o.await("a1")
		mine, hers := o.enqueue(o.eve, "all", "e1"), o.enqueue(o.ada, "all", "a2")
		if got := o.waiting(o.eve, "all"); !slices.Equal(got, []string{mine.Key}) {
			o.Errorf("eve sees %v", got)
		}
		if got := o.waiting(o.ada, "all"); !slices.Equal(got, []string{hers.Key}) {
			o.Errorf("ada sees %v", got)
		}
		for _, path := range []string{":cancel", ":move", ":update"} {
			body := map[string]string{":cancel": `{}`, ":move": `{"to":"last"}`, ":update": `{"priority":5}`}[path]
			if status, answer, err := o.eve.call("POST", "/v1/runs/"+hers.Key+path, body); status != 404 {
				o.Errorf("eve's %s of ada's run: %d %s %v", path, status, answer, err)
			}
		}
		var why struct {
			Sentences []string `json:"sentences"`
			Run       job      `json:"run"`
		}
		o.ada.do("GET", "/v1/runs/"+hers.Key+":explain", nil, &why)
		text := strings.Join(why.Sentences, " ")
		if why.Run.Position != 2 || strings.Contains(text, mine.Key) {
			o.Errorf("ada's run is at position %d: %s", why.Run.Position, text)
		}
		for _, path := range []string{":pause", ":close"} {
			if status, answer, err := o.eve.call("POST", "/v1/queues/all"+path, `{}`); status != 403 && status != 404 {
				o.Errorf("a user's %s of a shared queue: %d %s %v", path, status, answer, err)
			}
		}
		goOn()
		o.await("a1", "a2", "e1")
	})
}
