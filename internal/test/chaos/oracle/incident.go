package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/carillon/carillon/internal/test/chaos/record"
)

// incident is how the executor fails for every key until an instant.
type incident struct {
	kind  string // down, broken or hung
	until time.Time
}

// fail begins an incident.
func (o *oracle) fail(w http.ResponseWriter, r *http.Request) {
	length, err := time.ParseDuration(r.FormValue("for"))
	now := incident{r.FormValue("kind"), time.Now().Add(length)}
	if err != nil || now.kind != "down" && now.kind != "broken" && now.kind != "hung" {
		http.Error(w, fmt.Sprintf("no such incident: %v", err), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.incident = now
	o.mu.Unlock()
	if now.kind == "down" {
		o.down <- length
	}
}

// failing answers a call that comes during an incident, without an effect.
func (o *oracle) failing(w http.ResponseWriter, r *http.Request, line record.Executor) bool {
	o.mu.Lock()
	now := o.incident
	if now.kind == "" || !line.At.Before(now.until) {
		o.mu.Unlock()
		return false
	}
	e := o.effectOf(line)
	e.calls++
	line.Number = e.calls
	o.note(line)
	o.mu.Unlock()
	o.durable()
	o.closes(r, line.Key, line.Number)
	switch now.kind {
	case "broken":
		http.Error(w, "<html>500 Internal Server Error</html>", http.StatusInternalServerError)
	case "hung":
		hang(r)
	default:
		dropConnection(w)
	}
	return true
}
