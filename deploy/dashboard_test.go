package deploy_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const dashboardFile = "grafana/carillon.json"

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Expr       string `json:"expr"`
			Datasource source `json:"datasource"`
		} `json:"list"`
	} `json:"annotations"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  source `json:"datasource"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []struct {
		RefID      string `json:"refId"`
		Expr       string `json:"expr"`
		Datasource source `json:"datasource"`
	} `json:"targets"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardIsWhatGrafanaCanLoad checks what can be checked without
// Grafana: ids, positions, and the data source variable.
func TestTheDashboardIsWhatGrafanaCanLoad(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	variables := make(map[string]bool)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	if d.UID == "" || d.Title == "" || !variables["datasource"] || !variables["job"] {
		t.Errorf("uid %q, title %q, variables %v", d.UID, d.Title, variables)
	}
	chosen := source{"prometheus", "${datasource}"}
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is wider than the page", p.Title)
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.Datasource != chosen || len(p.Targets) == 0 {
			t.Errorf("%s: description %q, data source %v, %d queries", p.Title, p.Description, p.Datasource, len(p.Targets))
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource != chosen || !strings.Contains(target.Expr, `job=~"$job"`) {
				t.Errorf("%s %s: data source %v, query %s", p.Title, target.RefID, target.Datasource, target.Expr)
			}
			refs[target.RefID] = true
		}
	}
}

// dashboardQueries are all of its queries, as Grafana would send them, by where
// they stand.
func dashboardQueries(t *testing.T) map[string]string {
	t.Helper()
	d := readDashboard(t)
	send := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*")
	queries := make(map[string]string)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries[p.Title+" "+target.RefID] = send.Replace(target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		queries["annotation "+a.Expr] = send.Replace(a.Expr)
	}
	return queries
}
