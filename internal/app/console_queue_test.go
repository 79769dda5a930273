package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestTheConsoleShowsQueuesAndPausesAndClosesThem(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		g.browse("operator", "/ui/queues", nil).holds(t, "no queue", "No queues")
		must := func(method, path, body string) string {
			t.Helper()
			code, text := g.send("operator", method, path, body)
			if code != http.StatusOK {
				t.Fatalf("%s %s: %d %s", method, path, code, text)
			}
			return text
		}
		must("PUT", "/v1/limits/card", `{"user_id":"ada","keyed":true,"max_in_flight":1}`)
		must("PUT", "/v1/queues/gpu", `{"user_id":"ada","max_in_flight":3,"labels":{"team":"x"},"rate":{"starts":5,"per_ms":60000},"limits":["card=a7"],"promote_after_ms":7200000}`)
		must("POST", "/v1/queues/gpu:pause", `{"note":"driver"}`)
		_, key, _ := strings.Cut(must("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1}`), `"idempotency_key":"`)
		key = key[:64]
		must("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1,"priority":4,"delay_ms":3600000}`)
		g.browse("operator", "/ui/queues", nil).holds(t, "the queues", `href="/ui/queues/gpu"`, "paused", "0 of 3", "1 delayed")
		g.browse("operator", "/ui/queues/gpu", nil).holds(t, "the queue", key[:12], "in turn", "driver", "by subject-operator", "created", "1 run waiting, 0 of 3 in flight, 1 delayed.", `action="/ui/queues/gpu/resume"`, "5 in 1m", `<a href="/ui/limits/card">card=a7</a>`, "2h")
		g.browse("operator", "/ui/runs/"+key, nil).holds(t, "its run", `<a href="/ui/limits/card">card=a7</a>`, `<a href="/ui/queues/gpu">gpu</a>, waiting, position 1 of its priority`)
		g.browse("operator", "/ui/runs?queue=gpu", nil).holds(t, "its runs", key[:10])
		_, unique, _ := strings.Cut(must("POST", "/v1/queues/gpu/runs", `{"workflow_id":"w","version":1,"delay_ms":3600000,"unique":{"key":"doc <7>","scope":"period","period_ms":60000}}`), `"idempotency_key":"`)
		g.browse("operator", "/ui/runs/"+unique[:64], nil).holds(t, "a unique run", "Unique key", "doc &lt;7&gt;, scope period", "until")
		must("POST", "/v1/runs/"+unique[:64]+":cancel", `{}`)
		if got := g.browse("viewer", "/ui/queues/gpu/close", url.Values{}); got.code != http.StatusForbidden {
			t.Errorf("who may only look closes: %d", got.code)
		}
		g.browse("operator", "/ui/queues/gpu/close", url.Values{"note": {"moving"}}).holds(t, "closed", "Closed gpu")
		g.browse("operator", "/ui/queues/gpu", nil).holds(t, "the closed queue", "It takes no new runs", "moving", "closed")
		g.browse("operator", "/ui/queues/gpu/open", url.Values{}).holds(t, "opened", "Opened gpu")
		g.browse("operator", "/ui/queues/gpu/pause", url.Values{"note": {"again"}, "until": {"2h"}}).holds(t, "paused again", "Paused gpu", "It resumes automatically")
		g.browse("operator", "/ui/queues/gpu/resume", url.Values{}).holds(t, "resumed", "Resumed gpu")
		g.browse("operator", "/ui/queues/gpu", nil).holds(t, "what if", "What if", `name="takes"`)
		g.browse("operator", "/ui/queues/gpu?max=2&takes=30s&every=1m&for=10m", nil).holds(t, "a simulation", "saved", "proposed", "Every run succeeds", `value="30s"`)
		g.browse("operator", "/ui/queues/gpu?max=two&takes=soon", nil).holds(t, "a simulation that cannot be", "is not a number", "is not a duration")
		g.browse("operator", "/ui/queues/gpu?max=0&takes=1s", nil).holds(t, "a refused simulation", "10000")
		g.browse("operator", "/ui/queues/gpu", nil).holds(t, "the button", `href="/ui/queues/gpu/cancel"`, `name="cancel_waiting"`)
		must("PUT", "/v1/queues/filled", `{"user_id":"ada"}`)
		must("POST", "/v1/queues/filled:pause", `{}`)
		for range 3 {
			must("POST", "/v1/queues/filled/runs", `{"workflow_id":"w","version":1}`)
		}
		g.browse("operator", "/ui/queues/filled/cancel", nil).holds(t, "the form", "3 runs", "3 of them wait", "Cancel 3 runs", `action="/ui/queues/filled/cancel"`)
		if got := g.browse("viewer", "/ui/queues/filled/cancel", url.Values{}); got.code != http.StatusForbidden {
			t.Errorf("who may only look cancels: %d", got.code)
		}
		g.browse("operator", "/ui/queues/filled/cancel", url.Values{"note": {"wrong"}}).holds(t, "cancelled", "3 runs cancelled")
		g.browse("operator", "/ui/queues/filled/cancel", url.Values{}).holds(t, "cancelled again", "No run is in the queue")
		must("POST", "/v1/queues/filled/runs", `{"workflow_id":"w","version":1}`)
		g.browse("operator", "/ui/queues/filled/pause", url.Values{"cancel_waiting": {"yes"}}).holds(t, "paused, and what waits is ended", "Paused filled", "1 waiting run cancelled.")
		must("PUT", "/v1/queues/bounded", `{"user_id":"ada","run_timeout_ms":90000,"max_run_ms":7200000,"expires_ms":1500}`)
		g.browse("operator", "/ui/queues/bounded", nil).holds(t, "a queue with bounds", "<dd>1 min 30 s</dd>", "<dd>2 h</dd>", "<dd>after 1 s 500 ms of waiting</dd>")
		must("PUT", "/v1/queues/deploys", `{"user_id":"ada"}`)
		_, held, _ := strings.Cut(must("POST", "/v1/queues/deploys:reserve", `{"hold_ms":60000}`), `"reservation_id":"`)
		_, waits, _ := strings.Cut(must("POST", "/v1/queues/deploys:reserve", `{"hold_ms":60000}`), `"reservation_id":"`)
		held, waits = held[:64], waits[:64]
		g.browse("operator", "/ui/queues/deploys", nil).holds(t, "reservations", held[:12], waits[:12], "subject-operator", "granted", "waits", "0 and 1 reservation, of 1 in flight, 1 reservation waiting.", `action="/ui/queues/deploys/reservations/`+held+`/release"`)
		if got := g.browse("viewer", "/ui/queues/deploys/reservations/"+held+"/release", url.Values{}); got.code != http.StatusForbidden {
			t.Errorf("who may only look releases: %d", got.code)
		}
		g.browse("operator", "/ui/queues/deploys/reservations/"+held+"/release", url.Values{}).holds(t, "released", "Released the reservation of ada", "Its slot is free")
		g.browse("operator", "/ui/queues/deploys", nil).holds(t, "after the release", waits[:12], "reservation_released")
		if got := g.browse("operator", "/ui/queues/none", nil); got.code != http.StatusNotFound {
			t.Errorf("a queue that is not there: %d", got.code)
		}
	})
}
