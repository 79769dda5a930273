package api_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu is the CPU time of this process.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func TestNoRequestCostsMoreThanASecond(t *testing.T) {
	r := newRig(t)
	preview := func(spec string) string { return `{` + spec + `,"page_size":10000}` }
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	for _, c := range []struct{ name, method, path, body string }{
		{"ten thousand fires, each once in years", "POST", "/v1/schedules:preview", preview(`"cron_expr":"0 0 29 2 1","timezone":"America/New_York"`)},
		{"ten thousand fires of a rule that hardly fires", "POST", "/v1/schedules:preview", preview(`"cron_expr":"59 59 23 29 2 7","timezone":"Asia/Tehran","jitter_ms":3600000`)},
		{"ten thousand fires with every field listed", "POST", "/v1/schedules:preview", preview(`"cron_expr":"0,1,2,3,4,5,6,7,8,9 0-59 0-23 1-31 1-12 0-6","timezone":"Europe/London","dst":"literal"`)},
		{"ten thousand fires from 1970", "POST", "/v1/schedules:preview", preview(`"interval_ms":1000,"start_at":"1970-01-01T00:00:00Z","from":"2099-01-01T00:00:00Z"`)},
		{"a rule that never fires", "POST", "/schedules/upsert", upsert("cron_expr", `"0 0 30 2 *"`, "timezone", `"Pacific/Apia"`)},
		{"a rule that fires once in a long time", "POST", "/schedules/upsert", upsert("schedule_id", `"rare"`, "cron_expr", `"0 0 29 2 3#5"`)},
		{"an input of nothing but nesting", "POST", "/schedules/upsert", upsert("input", quote(strings.Repeat("[", 60<<10)))},
		{"an input of nested lists", "POST", "/schedules/upsert", upsert("input", strings.Repeat("[", 30<<10)+strings.Repeat("]", 30<<10))},
		{"an input of many members", "POST", "/schedules/upsert", upsert("input", "{"+many(8000, `"a":1`)+"}")},
		{"many unknown members", "POST", "/schedules/upsert", "{" + many(30_000, `"a":1`) + "}"},
		{"a DAG of a mebibyte of nested lists", "PUT", "/v1/workflows/n/versions/1", `{"dag":{"x":` + strings.Repeat("[", 500<<10) + strings.Repeat("]", 500<<10) + `}}`},
		{"a DAG of a mebibyte of members", "PUT", "/v1/workflows/m/versions/1", `{"dag":{"x":[` + many(170_000, `{"a":1}`)[:1_000_000] + `}]}}`},
		{"a deploy of every trigger there may be", "POST", "/v1/workflows/t:deploy", `{"version":1,"user_id":"u","dag":{"triggers":[` + many(200, `{"type":"schedule_based","cron_expr":"0 0 29 2 1","timezone":"Asia/Tehran"}`) + `]}}`},
		{"a deploy of too many triggers", "POST", "/v1/workflows/u:deploy", `{"version":1,"user_id":"u","dag":{"triggers":[` + many(20_000, `{"type":"schedule_based"}`) + `]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := cpu(t)
			code, text := r.rest(c.method, c.path, c.body)
			used := cpu(t) - before
			if used > time.Second*raceFactor || code >= http.StatusInternalServerError {
				t.Errorf("answered %d after %s of the processor: %.200s", code, used, text)
			}
			t.Logf("%d, %s", code, used)
		})
	}
}
