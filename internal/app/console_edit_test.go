package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var formValue = regexp.MustCompile(`(?s)<(?:input|textarea|select)[^>]* name="(\w+)"[^>]*?(?: value="([^"]*)")?[^>]*>(?:\n([^<]*)</textarea>|((?:<option[^>]*>\w+</option>)+)</select>)?`)

var chosen = regexp.MustCompile(`<option selected>(\w+)<`)

// formOf are the values of the form on a page, as a browser would send them.
func formOf(page seen) url.Values {
	values := make(url.Values)
	_, form, _ := strings.Cut(page.main(), `<form class="card" id="edit"`)
	for _, m := range formValue.FindAllStringSubmatch(form, -1) {
		value := m[2] + m[3]
		if option := chosen.FindStringSubmatch(m[4]); option != nil {
			value = option[1]
		}
		values.Set(m[1], strings.NewReplacer("&#34;", `"`, "&#43;", "+", "&amp;", "&", "&#39;", "'").Replace(value))
	}
	return values
}

func changedForm(form url.Values, pairs ...string) url.Values {
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func TestAScheduleIsEditedByItsForm(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		for i, c := range []struct {
			name, who string
			edits     []string
			code      int
			says      []string
			moves     map[string]any // of the schedule; empty: nothing changed
		}{
			{"nothing", "operator", nil, 200, []string{"No changes"}, nil},
			{"the rule", "operator", []string{"cron_expr", "0 4 * * *", "timezone", "UTC"}, 200, []string{"as revision 2"}, map[string]any{"cron_expr": "0 4 * * *", "timezone": "UTC"}},
			{"another kind of rule", "operator", []string{"cron_expr", "", "interval_ms", "90s"}, 200, nil, map[string]any{"cron_expr": "", "interval_ms": 90000.0}},
			{"durations, numbers, choices", "operator", []string{"run_timeout_ms", "2h", "priority", "-7", "overlap_policy", "skip", "jitter_ms", "0"}, 200, nil, map[string]any{"run_timeout_ms": 7200000.0, "priority": -7.0, "overlap_policy": "skip", "jitter_ms": 0.0}},
			{"a default", "operator", []string{"priority", ""}, 200, nil, map[string]any{"priority": 0.0}},
			{"a time in the schedule's zone", "operator", []string{"end_at", "2090-01-02T03:04"}, 200, nil, map[string]any{"end_at": "2090-01-02T02:04:00Z"}},
			{"retries", "operator", []string{"retry_max_attempts", "3", "retry_backoff_ms", "30s", "retry_on", "transient, lost"}, 200, nil, map[string]any{"retry": map[string]any{
				"max_attempts": 3.0, "backoff_ms": 30000.0, "factor_percent": 200.0, "max_backoff_ms": 3600000.0, "on": []any{"transient", "lost"},
			}}},
			{"retries that are none", "operator", []string{"retry_max_attempts", "26", "retry_factor_percent", "much"}, 422, []string{`value="26"`, `id="retry_factor_percent-problem"`, "whole number"}, nil},
			{"more attempts than there may be", "operator", []string{"retry_max_attempts", "26"}, 422, []string{`id="retry_max_attempts-problem"`}, nil},
			{"a failure class that is none", "operator", []string{"retry_max_attempts", "2", "retry_on", "transient, tired"}, 422, []string{`id="retry_on-problem"`}, nil},
			{"labels", "operator", []string{"labels", "team = y\r\n\r\nonly=a=b"}, 200, nil, map[string]any{"labels": map[string]any{"team": "y", "only": "a=b"}}},
			{"the input", "operator", []string{"input", "{\r\n\"a\": [1]}"}, 200, nil, map[string]any{"input": map[string]any{"a": []any{1.0}}}},
			{"a rule that is none", "operator", []string{"cron_expr", "0 99 * * *"}, 422, []string{`value="0 99 * * *"`, `id="cron_expr-problem"`, `aria-invalid="true"`}, nil},
			{"two rules", "operator", []string{"interval_ms", "1h"}, 422, []string{"more than one of cron_expr"}, nil},
			{"an interval that is none, and a label without a value", "operator", []string{"interval_ms", "soon", "labels", "team"}, 422, []string{`value="soon"`, `id="interval_ms-problem"`, "is not a duration", `id="labels-problem"`}, nil},
			{"a label's name that is none", "operator", []string{"labels", "te am=x"}, 422, []string{`id="labels-problem"`}, nil},
			{"an input that is no JSON", "operator", []string{"input", "{<b>"}, 422, []string{`id="input-problem"`, "{&lt;b&gt;"}, nil},
			{"a number that is none", "operator", []string{"max_queued", "many"}, 422, []string{`id="max_queued-problem"`, "whole number"}, nil},
			{"by who may only look", "viewer", []string{"priority", "8"}, 403, []string{"Not allowed", `value="8"`}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				id := fmt.Sprintf("e%d", i)
				path := "/v1/schedules/" + id
				if code, answer := g.send("operator", "PUT", path, wholeSchedule); code != http.StatusOK {
					t.Fatalf("%d %s", code, answer)
				}
				before := scheduleAt(t, g, path)
				form := formOf(g.browse(c.who, "/ui/schedules/"+id+"/edit", nil))
				got := g.browse(c.who, "/ui/schedules/"+id+"/edit", changedForm(form, c.edits...))
				if got.code != c.code {
					t.Errorf("%d, want %d", got.code, c.code)
				}
				got.holds(t, "the answer", c.says...)
				after := scheduleAt(t, g, path)
				for _, follows := range []string{"revised_at", "updated_at", "next_run_at", "revision"} {
					if len(c.moves) > 0 {
						delete(before, follows)
						delete(after, follows)
					}
				}
				for name, value := range c.moves {
					before[name] = value
				}
				if fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the schedule is\n%v, want\n%v", after, before)
				}
			})
		}
	})
}

func TestAScheduleWithALargeInputIsEdited(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		const path, page = "/v1/schedules/nightly", "/ui/schedules/nightly/edit"
		large := strings.Replace(wholeSchedule, "1.50", "[1"+strings.Repeat(",1", 32_000)+"]", 1)
		if code, answer := g.send("operator", "PUT", path, large); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		form := formOf(g.browse("operator", page, nil))
		g.browse("operator", page, changedForm(form, "priority", "9")).holds(t, "saved", "as revision 2")
		if now := scheduleAt(t, g, path); now["priority"] != 9.0 || len(fmt.Sprint(now["input"])) < 64_000 {
			t.Errorf("priority %v, an input of %d characters", now["priority"], len(fmt.Sprint(now["input"])))
		}
	})
}

func TestTheSecondWriterOfAScheduleSeesBothVersions(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		const path, page = "/v1/schedules/nightly", "/ui/schedules/nightly/edit"
		if code, answer := g.send("operator", "PUT", path, wholeSchedule); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		form := formOf(g.browse("operator", page, nil))
		if code, answer := g.send("compiler", "PATCH", path, `{"timezone":"Asia/Tokyo","priority":5}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		second := g.browse("operator", page, changedForm(form, "cron_expr", "0 4 * * *", "priority", "9"))
		if second.code != http.StatusConflict {
			t.Fatalf("the second writer: %d", second.code)
		}
		second.holds(t, "the second writer", "revision 2 by subject-compiler", "You edited revision 1", `<a class="button" href="`+page+`">Load revision 2`,
			`<tr><td>Cron expression</td><td class="diff">0 3 * * *</td><td class="diff">0 3 * * *</td><td><span class="diff">0 4 * * *</span></td></tr>`,
			`<tr><td>Time zone</td><td class="diff">Europe/Berlin</td><td class="diff">Asia/Tokyo</td><td><span class="muted">not changed</span></td></tr>`,
			`<tr><td>Priority</td><td class="diff">3</td><td class="diff">5</td><td><span class="diff">9</span></td></tr>`,
			"not: <td>Overlap</td>", "not: <td>Starts</td>")
		if now := scheduleAt(t, g, path); now["cron_expr"] != "0 3 * * *" || now["revision"] != 2.0 {
			t.Errorf("a change was overwritten: %v", now)
		}
		saved := g.browse("operator", page, formOf(second))
		saved.holds(t, "saved again", "as revision 3")
		if now := scheduleAt(t, g, path); now["cron_expr"] != "0 4 * * *" || now["timezone"] != "Asia/Tokyo" || now["priority"] != 9.0 {
			t.Errorf("both changes: %v", now)
		}
	})
}

func TestAnEditOfAScheduleIsRefused(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *guarded) {
		const path, page = "/v1/schedules/nightly", "/ui/schedules/nightly/edit"
		if code, answer := g.send("compiler", "PUT", path, strings.Replace(wholeSchedule, "{", `{"managed_by":"set:nightly",`, 1)); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		open := g.browse("operator", page, nil)
		open.holds(t, "a managed schedule", "Managed by <strong>set:nightly</strong>")
		form := changedForm(formOf(open), "priority", "9")
		for _, c := range []struct {
			name, who string
			form      url.Values
			headers   []string
			code      int
		}{
			{"by another owner", "bob", form, nil, http.StatusNotFound},
			{"by a page of another site", "operator", form, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
			{"without the revision", "operator", url.Values{"priority": {"9"}}, nil, http.StatusUnprocessableEntity},
			{"by nobody", "", form, nil, http.StatusUnauthorized},
		} {
			if got := g.browse(c.who, page, c.form, c.headers...); got.code != c.code {
				t.Errorf("%s: %d, want %d", c.name, got.code, c.code)
			}
		}
		if now := scheduleAt(t, g, path); now["priority"] != 3.0 {
			t.Errorf("a refused edit changed it: %v", now)
		}
		g.browse("operator", page, form).holds(t, "saved", "as revision 2", "set:nightly")
	})
}
