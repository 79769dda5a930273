// Command receiver receives Carillon's webhooks: alerts, and the ends of runs in dispatch
// queues. It accepts only messages that are signed with the registrars' secret, recent, and new.
//
//	ALERT_WEBHOOK_SECRET=whsec_… go run ./docs/examples/receiver 127.0.0.1:9911
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: receiver HOST:PORT")
	}
	r, err := newReceiver(os.Getenv("ALERT_WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal("ALERT_WEBHOOK_SECRET: ", err)
	}
	lis, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("waits for webhooks on http://%s/", lis.Addr())
	server := &http.Server{Handler: r, ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(lis))
}

const (
	// tolerance is how far the time of a message may be from ours. A captured message can
	// be replayed for that long; ids are kept longer.
	tolerance = 5 * time.Minute
	remember  = 25 * time.Hour // longer than Carillon tries
	maxBody   = 64 << 10
)

type receiver struct {
	key []byte
	now func() time.Time

	mu   sync.Mutex
	seen map[string]time.Time // by webhook-id
}

// newReceiver reads a secret as ALERT_WEBHOOK_SECRET has it: whsec_ and base64.
func newReceiver(secret string) (*receiver, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 {
		return nil, errors.New("is not whsec_ and at least 24 bytes in base64")
	}
	return &receiver{key: key, now: time.Now, seen: make(map[string]time.Time)}, nil
}

// message is what this receiver reads; docs/alerts.md and docs/queues.md have it all.
type message struct {
	Type string `json:"type"`
	Data struct {
		Text       string    `json:"text"`
		AlertID    string    `json:"alert_id"`
		ScheduleID string    `json:"schedule_id"`
		Run        *struct { // of run.succeeded and the like
			Key        string `json:"idempotency_key"`
			Status     string `json:"status"`
			ScheduleID string `json:"schedule_id"`
			Error      string `json:"error_message"`
		} `json:"run"`
		Group *struct { // of group.ended
			GroupID string `json:"group_id"`
			State   string `json:"state"`
		} `json:"group"`
	} `json:"data"`
}

// ServeHTTP answers 2xx once a message is safe with us: Carillon sends it again
// until then, for a day.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// The signature is of the bytes as they came, so they are read before anything
	// else looks at them.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "too much, or broken off", http.StatusBadRequest)
		return
	}
	if err := r.verify(req.Header, body); err != nil {
		log.Print("refused: ", err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	if r.isNew(req.Header.Get("webhook-id")) {
		switch d := m.Data; {
		case d.Run != nil:
			log.Printf("%s %s of schedule %s is %s %s", m.Type, d.Run.Key, d.Run.ScheduleID, d.Run.Status, d.Run.Error)
		case d.Group != nil:
			log.Printf("%s %s is %s", m.Type, d.Group.GroupID, d.Group.State)
		default:
			log.Printf("%s %s %s", m.Type, d.AlertID, d.Text) // or wake somebody
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify refuses messages that are not signed with the secret, or not recent.
func (r *receiver) verify(h http.Header, body []byte) error {
	id, at := h.Get("webhook-id"), h.Get("webhook-timestamp")
	unix, err := strconv.ParseInt(at, 10, 64)
	if id == "" || err != nil {
		return errors.New("webhook-id or webhook-timestamp is missing")
	}
	if off := r.now().Sub(time.Unix(unix, 0)); off > tolerance || off < -tolerance {
		return fmt.Errorf("webhook-timestamp is %s off, more than %s", off, tolerance)
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	want := mac.Sum(nil)
	for word := range strings.FieldsSeq(h.Get("webhook-signature")) { // one for each secret of the sender
		signature, ok := strings.CutPrefix(word, "v1,")
		got, err := base64.StdEncoding.DecodeString(signature)
		if ok && err == nil && hmac.Equal(got, want) { // in constant time
			return nil
		}
	}
	return errors.New("no webhook-signature is ours")
}

// isNew says whether a message has not been here before: each comes at least
// once, and always under its id. A receiver that must not tell a thing twice
// after its own restart keeps the ids in its database.
func (r *receiver) isNew(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for old, at := range r.seen {
		if now.Sub(at) > remember {
			delete(r.seen, old)
		}
	}
	_, known := r.seen[id]
	r.seen[id] = now
	return !known
}
