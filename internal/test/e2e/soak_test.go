package e2e_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	soakSteps = flag.Int("soak", 400, "operations of TestLongASoakOfAQueueAgreesWithAList")
	soakSeed  = flag.Uint64("seed", 1, "of the soak")
)

// slots is max_in_flight of the soak's queue.
const slots = 3

// desk is an executor whose calls end when the test says so.
type desk struct {
	mu   sync.Mutex
	ends map[string]chan string // by name: how the job ends
	got  chan string            // names, once each
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Input struct {
			Name string `json:"name"`
		} `json:"input"`
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name := call.Input.Name
	d.mu.Lock()
	end, known := d.ends[name]
	if !known {
		end = make(chan string, 1)
		d.ends[name] = end
	}
	d.mu.Unlock()
	if !known {
		d.got <- name
	}
	select {
	case status := <-end:
		end <- status // for the next call of this key
		_, _ = fmt.Fprintf(w, `{"run_id":%q,"status":%q,"error_code":"broken"}`, name, status)
	case <-r.Context().Done():
	}
}

func (d *desk) end(name, status string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends[name] <- status
}

// listed is a run of the model.
type listed struct {
	key, name string
	priority  int
}

// soak is a queue and the model of it: the waiting runs in order, and those in flight.
type soak struct {
	*jobSite
	desk     *desk
	random   *rand.Rand
	waiting  []listed
	inFlight []listed
	ended    map[string]string // status by key
	n        int
}

// TestLongASoakOfAQueueAgreesWithAList does what clients of a queue do, in any order, and
// compares each answer and each admission with a sorted list. Now and then the process is
// killed.
func TestLongASoakOfAQueueAgreesWithAList(t *testing.T) {
	onBothStores(t, func(s *jobSite) {
		d := &desk{ends: make(map[string]chan string), got: make(chan string, 1000)}
		server := httptest.NewServer(d)
		s.Cleanup(server.Close)
		s.process.kill()
		s.process.env = append(s.process.env, "EXECUTOR_URL="+server.URL)
		s.process.startReady()
		s.do("PUT", "/v1/queues/q", fmt.Sprintf(`{"max_in_flight":%d,"user_id":"ada","retry":{"max_attempts":1}}`, slots), nil)
		o := &soak{jobSite: s, desk: d, random: rand.New(rand.NewPCG(*soakSeed, 0)), ended: make(map[string]string)}
		s.Logf("seed %d, %d operations", *soakSeed, *soakSteps)
		for o.n < *soakSteps {
			o.do("POST", "/v1/queues/q:pause", `{}`, nil)
			for range 5 + o.random.IntN(40) {
				o.step()
			}
			o.whole()
			if o.random.IntN(20) == 0 {
				s.process.kill()
				s.process.startReady()
			}
			for range o.random.IntN(slots + 1) {
				o.finish()
			}
			o.do("POST", "/v1/queues/q:resume", `{}`, nil)
			o.admitted()
		}
		for len(o.inFlight) > 0 {
			o.finish()
			o.admitted()
		}
		for key, status := range o.ended {
			if run := o.run(key); run.Status != status {
				s.Errorf("run %s is %s, want %s", key, run.Status, status)
			}
		}
		s.Logf("%d runs", len(o.ended))
	})
}

// step is one operation of a client, while the queue is paused.
func (o *soak) step() {
	o.n++
	switch roll := o.random.IntN(10); {
	case len(o.waiting) == 0 || roll < 4 && len(o.waiting) < 300:
		o.enter()
	case roll < 6:
		o.move()
	case roll < 7:
		o.reprioritize()
	case roll < 8:
		r := o.pick()
		o.do("POST", "/v1/runs/"+r.key+":cancel", `{}`, nil)
		o.remove(r)
		o.ended[r.key] = "CANCELLED"
	default:
		r := o.pick()
		if run := o.run(r.key); run.Position != o.position(r) || run.State != "waiting" {
			o.Fatalf("operation %d: run %s is %s at position %d, want %d", o.n, r.name, run.State, run.Position, o.position(r))
		}
	}
}

func (o *soak) pick() listed { return o.waiting[o.random.IntN(len(o.waiting))] }

// position is the ordinal of a run in its priority.
func (o *soak) position(r listed) (n int) {
	for _, w := range o.waiting {
		if w.priority == r.priority {
			n++
		}
		if w.key == r.key {
			return n
		}
	}
	o.Fatalf("run %s does not wait", r.name)
	return 0
}

func (o *soak) remove(r listed) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w listed) bool { return w.key == r.key })
}

// insert puts a run at a position of its priority; behind all others if it has fewer.
func (o *soak) insert(r listed, position int) {
	at, n := len(o.waiting), 0
	for i, w := range o.waiting {
		if w.priority == r.priority {
			n++
		}
		if w.priority < r.priority || w.priority == r.priority && n == position {
			at = i
			break
		}
	}
	o.waiting = slices.Insert(o.waiting, at, r)
}

const last = 1_000_000

func (o *soak) enter() {
	r, position, more := listed{name: fmt.Sprintf("r%d", o.n), priority: o.random.IntN(3)}, last, ""
	switch o.random.IntN(4) {
	case 0:
		position = 1 + o.random.IntN(10)
		more = fmt.Sprintf(`,"position":%d`, position)
	case 1:
		position, more = 1, `,"next":true`
	}
	more += fmt.Sprintf(`,"priority":%d`, r.priority)
	entered := o.enqueue(r.name, more)
	r.key = entered.Key
	o.insert(r, position)
	if again := o.enqueue(r.name, more); again.Key != r.key || entered.Position != o.position(r) {
		o.Fatalf("operation %d: %s entered as %+v, and again as %+v, want position %d", o.n, r.name, entered, again, o.position(r))
	}
}

func (o *soak) move() {
	r, other := o.pick(), o.pick()
	var body string
	o.remove(r)
	to := 1
	switch roll := o.random.IntN(5); {
	case roll == 0:
		body = `{"to":"first"}`
	case roll == 1:
		body, to = `{"to":"last"}`, last
	case roll == 2 || other.key == r.key || other.priority != r.priority:
		to = 1 + o.random.IntN(20)
		body = fmt.Sprintf(`{"to":"position","position":%d}`, to)
	case roll == 3:
		body, to = fmt.Sprintf(`{"to":"before","relative_to":%q}`, other.key), o.position(other)
	default:
		body, to = fmt.Sprintf(`{"to":"after","relative_to":%q}`, other.key), o.position(other)+1
	}
	o.do("POST", "/v1/runs/"+r.key+":move", body, nil)
	o.insert(r, to)
	if run := o.run(r.key); run.Position != o.position(r) {
		o.Fatalf("operation %d: run %s moved by %s is at position %d, want %d", o.n, r.name, body, run.Position, o.position(r))
	}
}

// reprioritize moves a run to another priority. Its place there is the one of its entry or
// move, which the list does not know: the answer says it.
func (o *soak) reprioritize() {
	r := o.pick()
	o.remove(r)
	r.priority = o.random.IntN(3)
	o.do("POST", "/v1/runs/"+r.key+":update", fmt.Sprintf(`{"priority":%d}`, r.priority), nil)
	o.insert(r, o.run(r.key).Position)
}

// whole compares the list with the whole queue.
func (o *soak) whole() {
	var keys, want []string
	for token := ""; ; {
		var page struct {
			Runs []job  `json:"runs"`
			Next string `json:"next_page_token"`
		}
		o.do("GET", "/v1/queues/q/waiting?page_token="+token, nil, &page)
		for _, r := range page.Runs {
			keys = append(keys, r.Key)
		}
		if token = page.Next; token == "" {
			break
		}
	}
	for _, w := range o.waiting {
		want = append(want, w.key)
	}
	if !slices.Equal(keys, want) {
		o.Fatalf("operation %d: %d runs wait, %d in the list, or in another order\n%v\n%v", o.n, len(keys), len(want), keys, want)
	}
}

// finish ends a run in flight.
func (o *soak) finish() {
	if len(o.inFlight) == 0 {
		return
	}
	i := o.random.IntN(len(o.inFlight))
	r, status := o.inFlight[i], []string{"SUCCESS", "FAILED"}[o.random.IntN(2)]
	o.inFlight = slices.Delete(o.inFlight, i, i+1)
	o.desk.end(r.name, status)
	o.ended[r.key] = status
	eventually(o.T, startBound, r.name+" ends", func() error {
		if run := o.run(r.key); run.Status != status {
			return fmt.Errorf("it is %s, want %s", run.Status, status)
		}
		return nil
	})
}

// admitted compares what the executor gets with the first runs of the list.
func (o *soak) admitted() {
	n := min(slots-len(o.inFlight), len(o.waiting))
	next := slices.Clone(o.waiting[:n])
	o.waiting = slices.Delete(o.waiting, 0, n)
	o.inFlight = append(o.inFlight, next...)
	got := make([]string, 0, n)
	for range n {
		select {
		case name := <-o.desk.got:
			got = append(got, name)
		case <-time.After(startBound):
			o.Fatalf("operation %d: the executor got %v, want %v", o.n, got, next)
		}
	}
	slices.Sort(got) // calls of one admission arrive in any order
	slices.SortFunc(next, func(a, b listed) int { return cmp.Compare(a.name, b.name) })
	for i, r := range next {
		if got[i] != r.name {
			o.Fatalf("operation %d: the executor got %v, want %v", o.n, got, next)
		}
	}
}
