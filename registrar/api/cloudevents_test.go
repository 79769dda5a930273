package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// cloudEvent posts to /v1/events with headers: "ce-id: a".
func (r *rig) cloudEvent(query, body string, headers ...string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.base+"/v1/events?user_id=ada"+query, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const (
	structured = "Content-Type: application/cloudevents+json; charset=utf-8"
	batched    = "Content-Type: application/cloudevents-batch+json"
)

var binary = []string{"Content-Type: application/json", "ce-id: 1", "ce-source: /shop", "ce-type: order.paid", "ce-specversion: 1.0"}

// with is binary with other headers; a value of - removes one.
func with(headers ...string) (out []string) {
	for _, h := range append(binary, headers...) {
		name, _, _ := strings.Cut(h, ": ")
		for i, before := range out {
			if strings.HasPrefix(before, name+": ") {
				out = append(out[:i], out[i+1:]...)
				break
			}
		}
		if !strings.HasSuffix(h, ": -") {
			out = append(out, h)
		}
	}
	return out
}

func TestCloudEventsInThreeModes(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, query, body string
		headers           []string
		path              string // of the event
		want              []string
	}{
		{
			"binary", "", `{"n": 1.50}`, with("ce-subject: a%20b%25", "ce-time: 2026-03-08T14:00:00+01:00", "ce-traceparent: 00-x"),
			"order.paid/events/1?source=/shop",
			[]string{`"type":"order.paid"`, `"source":"/shop"`, `"subject":"a b%"`, `"time":"2026-03-08T13:00:00Z"`, `"data":{"n": 1.50}`},
		},
		{
			"binary with a quoted attribute and a topic", "&topic=orders", `7`, with(`ce-subject: "say \"hi\""`, "Content-Type: application/vnd.shop+json"),
			"orders/events/1?source=/shop",
			[]string{`"subject":"say \"hi\""`, `"data":7`, `"type":"order.paid"`},
		},
		{
			"structured", "", `{"specversion": "1.0", "id": "2", "source": "/shop", "type": "order.paid", "subject": "s", "time": "2026-03-08T14:00:00Z", "extra": 5, "data": {"a": [1.0]}}`,
			[]string{structured},
			"order.paid/events/2?source=/shop",
			[]string{`"data":{"a": [1.0]}`, `"time":"2026-03-08T14:00:00Z"`, `"subject":"s"`},
		},
		{
			"structured with the type of its data", "&topic=orders&strict=true", `{"specversion": "1.0", "id": "3", "source": "/shop", "type": "com.shop/paid", "datacontenttype": "application/json", "dataschema": null, "data": "text"}`,
			[]string{structured},
			"orders/events/3?source=/shop",
			[]string{`"data":"text"`, `"type":"com.shop/paid"`},
		},
		{
			"a batch", "", `[{"specversion": "1.0", "id": "4", "source": "/shop", "type": "order.paid", "data": {}}, {"specversion": "1.0", "id": "4", "source": "/other", "type": "order.paid", "data": [2]}]`,
			[]string{batched},
			"order.paid/events/4?source=/other",
			[]string{`"data":[2]`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, text := r.cloudEvent(tt.query, tt.body, tt.headers...)
			if code != http.StatusOK || !strings.Contains(text, `"duplicates":0`) {
				t.Fatalf("%d %s", code, text)
			}
			got := r.must("GET", "/v1/topics/"+tt.path+"&user_id=ada", "")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %s in %s", want, got)
				}
			}
			if code, text = r.cloudEvent(tt.query, tt.body, tt.headers...); code != http.StatusOK || !strings.Contains(text, `"accepted":0`) {
				t.Errorf("the same again: %d %s", code, text)
			}
		})
	}
}

// Source and id name an event, in whatever mode it comes.
func TestADuplicateCloudEventIsFoundByItsSourceAndID(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, want string
		headers    []string
		body       string
	}{
		{"the first", `"duplicate":false`, with(), `{"n":1}`},
		{"another mode", `"duplicate":true,"differs":false`, []string{structured}, `{"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.paid", "data": {"n": 1}}`},
		{"other data", `"duplicate":true,"differs":true`, with(), `{"n":2}`},
		{"another source", `"duplicate":false`, with("ce-source: /other"), `{"n":1}`},
		{"another id", `"duplicate":false`, with("ce-id: 2"), `{"n":1}`},
	} {
		if code, text := r.cloudEvent("", tt.body, tt.headers...); code != http.StatusOK || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %s", tt.name, code, text)
		}
	}
	if code, text := r.cloudEvent("&strict=true", `{"n":2}`, with()...); code != http.StatusUnprocessableEntity {
		t.Errorf("strict: %d %s", code, text)
	}
}

func TestCloudEventsThatAreRefused(t *testing.T) {
	r := newRig(t)
	event := func(members string) string { // the last of two members counts in this helper
		all := map[string]string{"specversion": `"1.0"`, "id": `"1"`, "source": `"/shop"`, "type": `"order.paid"`, "data": `{}`}
		for _, m := range strings.Split(members, "; ") {
			name, value, _ := strings.Cut(m, "=")
			if delete(all, name); value != "" {
				all[name] = value
			}
		}
		var parts []string
		for name, value := range all {
			parts = append(parts, fmt.Sprintf("%q: %s", name, value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	const bad, unsupported = http.StatusBadRequest, http.StatusUnsupportedMediaType
	for _, tt := range []struct {
		name, query, body string
		headers           []string
		code              int
		want              string
	}{
		{"binary without id", "", `{}`, with("ce-id: -"), bad, `"ce-id"`},
		{"binary without source", "", `{}`, with("ce-source: -"), bad, `"ce-source"`},
		{"binary without type", "", `{}`, with("ce-type: -"), bad, `"ce-type"`},
		{"binary without specversion", "", `{}`, with("ce-specversion: -"), bad, `"ce-specversion"`},
		{"binary of 0.3", "", `{}`, with("ce-specversion: 0.3"), bad, `\"0.3\" is not read`},
		{"binary without data", "", ``, with(), bad, `data`},
		{"binary with data that are no JSON", "", `{"a"`, with(), bad, `data`},
		{"binary text", "", `hi`, with("Content-Type: text/plain"), unsupported, "send application/json"},
		{"binary Avro", "", `hi`, with("Content-Type: application/avro"), unsupported, "send application/json"},
		{"binary with a time that is none", "", `{}`, with("ce-time: yesterday"), bad, `"ce-time"`},
		{"binary with half an escape", "", `{}`, with("ce-subject: a%2"), bad, `"ce-subject"`},
		{"binary with bytes that are no UTF-8", "", `{}`, with("ce-subject: %ff"), bad, `"ce-subject"`},
		{"a type that is no topic", "", `{}`, with("ce-type: com.shop/paid"), bad, `name one with ?topic=`},
		{"a reserved type", "", `{}`, with("ce-type: carillon.runs"), bad, `kept for Carillon`},
		{"a subject of 257 bytes", "", `{}`, with("ce-subject: " + strings.Repeat("x", 257)), bad, `subject`},
		{"an unknown parameter", "&dry_run=true", `{}`, with(), bad, `"dry_run"`},
		{"a parameter that is no truth value", "&strict=yes", `{}`, with(), bad, `"strict"`},
		{"structured without id", "", event("id="), []string{structured}, bad, `"id"`},
		{"structured with an empty source", "", event(`source=""`), []string{structured}, bad, `"source"`},
		{"structured without type", "", event("type="), []string{structured}, bad, `"type"`},
		{"structured without specversion", "", event("specversion="), []string{structured}, bad, `"specversion"`},
		{"structured of 0.3", "", event(`specversion="0.3"`), []string{structured}, bad, `\"0.3\" is not read`},
		{"structured with a number as id", "", event(`id=5`), []string{structured}, bad, `"id"`},
		{"structured with data_base64", "", event(`data=; data_base64="AAAA"`), []string{structured}, bad, `"data_base64"`},
		{"structured without data", "", event(`data=`), []string{structured}, bad, `data`},
		{"structured XML", "", event(`datacontenttype="application/xml"`), []string{structured}, unsupported, "datacontenttype"},
		{"structured with a member twice", "", `{"id": "1", "id": "2"}`, []string{structured}, bad, "twice"},
		{"structured that is an array", "", `[]`, []string{structured}, bad, "is not an object"},
		{"structured that is no JSON", "", `{`, []string{structured}, bad, "is not JSON"},
		{"another format", "", `<event/>`, []string{"Content-Type: application/cloudevents+xml"}, unsupported, "application/cloudevents-batch+json"},
		{"a batch that is an object", "", event(""), []string{batched}, bad, "send an array"},
		{"an empty batch", "", `[]`, []string{batched}, bad, "send an array"},
		{"a batch of 1001", "", "[" + strings.TrimSuffix(strings.Repeat(event("")+",", 1001), ",") + "]", []string{batched}, bad, "more than 1000"},
		{"a batch with one that has no id", "", "[" + event("") + "," + event("id=") + "]", []string{batched}, bad, `"events[1].id"`},
		{"a batch with text", "", "[" + event(`datacontenttype="text/plain"`) + "]", []string{batched}, unsupported, "events[0].datacontenttype"},
		{"a batch with one id and other data", "", "[" + event("") + "," + event("data=1") + "]", []string{batched}, bad, "with other data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, text := r.cloudEvent(tt.query, tt.body, tt.headers...)
			if code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("got %d %s, want %d with %s", code, text, tt.code, tt.want)
			}
		})
	}
	if got := r.must("GET", "/v1/topics/order.paid/events?user_id=ada", ""); !strings.Contains(got, `"events":[]`) {
		t.Errorf("something was written: %s", got)
	}
}
