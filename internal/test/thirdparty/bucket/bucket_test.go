package bucket_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/launcher/workflow/bucket"
)

// place is an object store of its own for a test.
type place struct {
	*bucket.Store
	put func(key, text string) // past the store, as another program would
}

// onEach runs test on a folder, on a server that speaks S3, and on a folder of
// a bucket there.
func onEach(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		test(t, place{open(t, "file://"+dir), func(key, text string) {
			path := filepath.Join(dir, filepath.FromSlash(key))
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}})
	})
	for name, folder := range map[string]string{"s3": "", "s3 in a folder": "dags/"} {
		t.Run(name, func(t *testing.T) {
			backend, address := s3(t)
			if folder != "" {
				address += "&prefix=" + folder
			}
			test(t, place{open(t, address), func(key, text string) {
				if _, err := backend.PutObject("flows", folder+key, map[string]string{}, strings.NewReader(text), int64(len(text)), nil); err != nil {
					t.Fatal(err)
				}
			}})
		})
	}
}

// s3 is a server with an empty bucket, flows.
func s3(t *testing.T) (backend *s3mem.Backend, address string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	backend = s3mem.New()
	if err := backend.CreateBucket("flows"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return backend, "s3://flows?region=us-east-1&use_path_style=true&endpoint=" + server.URL
}

func open(t *testing.T, address string) *bucket.Store {
	t.Helper()
	s, err := bucket.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func version(t *testing.T, n int32, dag string) *schedule.WorkflowVersion {
	t.Helper()
	hash, err := schedule.CanonicalHash([]byte(dag))
	if err != nil {
		t.Fatal(err)
	}
	return &schedule.WorkflowVersion{WorkflowID: "langgraph:poet", Version: n, DAG: []byte(dag), Hash: hash}
}

func TestABucketGivesTheVersionsThatItHolds(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		p.put("langgraph:poet/3.json", ` {"steps": [1e400]} `)
		p.put("owners/ada/langgraph:poet/3.json", `{"ada": 1}`)
		p.put("owners/auth0%7Cbob/langgraph:poet/3.json", `{"bob": 1}`)
		p.put("langgraph:poet/4.json", `{"steps": [`)
		p.put("langgraph:poet/5.json", `[]`)
		p.put("langgraph:poet/6.json", `{"pad":"`+strings.Repeat("x", schedule.MaxDAGBytes)+`"}`)
		for _, tt := range []struct {
			name    string
			user    string // "": stored for all owners
			id      string
			version int32
			want    string
			missing bool
			invalid string
		}{
			{name: "a version that is there, as it was written", id: "langgraph:poet", version: 3, want: ` {"steps": [1e400]} `},
			{name: "an owner's own", user: "ada", id: "langgraph:poet", version: 3, want: `{"ada": 1}`},
			{name: "an owner whose id is escaped", user: "auth0|bob", id: "langgraph:poet", version: 3, want: `{"bob": 1}`},
			{name: "another owner's own", user: "bob", id: "langgraph:poet", version: 3, missing: true},
			{name: "an owner that is the folder above", user: "..", id: "langgraph:poet", version: 3, missing: true},
			{name: "another version", id: "langgraph:poet", version: 30, missing: true},
			{name: "another workflow", id: "poet", version: 3, missing: true},
			{name: "a workflow above", id: "..", version: 3, missing: true},
			{name: "no JSON", id: "langgraph:poet", version: 4, invalid: "langgraph:poet/4.json"},
			{name: "no object", id: "langgraph:poet", version: 5, invalid: "object"},
			{name: "too much", id: "langgraph:poet", version: 6, invalid: "1048576"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dag, err := p.LoadDAG(t.Context(), tt.user, tt.id, tt.version)
				_, invalid := errors.AsType[*schedule.InvalidError](err)
				if string(dag) != tt.want || errors.Is(err, schedule.ErrNotFound) != tt.missing || invalid != (tt.invalid != "") {
					t.Errorf("LoadDAG = %.80q, %v", dag, err)
				}
				if tt.invalid != "" && !strings.Contains(err.Error(), tt.invalid) {
					t.Errorf("err = %v, want it to name %s", err, tt.invalid)
				}
			})
		}
	})
}

func TestAVersionIsWrittenOnce(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		first, respelt, other := version(t, 3, `{"a":1,"b":2}`), version(t, 3, `{"b":2, "a":1}`), version(t, 3, `{"a":2}`)
		for _, err := range []error{p.CheckDAG(t.Context(), first), p.PutDAG(t.Context(), first), p.PutDAG(t.Context(), first), p.PutDAG(t.Context(), respelt)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := p.PutDAG(t.Context(), other); !errors.Is(err, schedule.ErrExists) {
			t.Errorf("another DAG: %v", err)
		}
		if err := p.CheckDAG(t.Context(), other); !errors.Is(err, schedule.ErrExists) {
			t.Errorf("a check of another DAG: %v", err)
		}
		if dag, err := p.LoadDAG(t.Context(), "", first.WorkflowID, 3); string(dag) != `{"a":1,"b":2}` {
			t.Errorf("it holds %q, %v", dag, err)
		}
		// A version of one owner does not affect other owners.
		adas := version(t, 3, `{"a":2}`)
		adas.UserID = "ada"
		if err := errors.Join(p.CheckDAG(t.Context(), adas), p.PutDAG(t.Context(), adas)); err != nil {
			t.Errorf("an owner's own of the same version: %v", err)
		}
		for user, want := range map[string]string{"": `{"a":1,"b":2}`, "ada": `{"a":2}`} {
			if dag, err := p.LoadDAG(t.Context(), user, first.WorkflowID, 3); string(dag) != want {
				t.Errorf("of owner %q it holds %q, %v", user, dag, err)
			}
		}
		owners := version(t, 3, `{}`)
		owners.WorkflowID = "owners"
		if _, invalid := errors.AsType[*schedule.InvalidError](p.CheckDAG(t.Context(), owners)); !invalid {
			t.Error("a workflow that would lie among the owners' folders is taken")
		}
	})
}

func TestTheNewestVersionIsTheGreatest(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		if v, err := p.Latest(t.Context(), "", "w"); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("of nothing: %d, %v", v, err)
		}
		for _, key := range []string{"w/9.json", "w/10.json", "w/2.json", "w/99999999999.json", "w/x.json", "w/50.txt", "w2/70.json"} {
			p.put(key, "{}")
		}
		if v, err := p.Latest(t.Context(), "", "w"); v != 10 || err != nil {
			t.Errorf("Latest = %d, %v, want 10", v, err)
		}
	})
}

func TestAStoreThatIsAwayIsNoMissingWorkflow(t *testing.T) {
	_, address := s3(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, away := range map[string]string{
		"nobody listens":        "s3://flows?region=us-east-1&use_path_style=true&endpoint=http://127.0.0.1:1",
		"another bucket's name": strings.Replace(address, "s3://flows", "s3://misnamed", 1),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, away)
			if _, err := s.LoadDAG(ctx, "", "w", 1); err == nil || errors.Is(err, schedule.ErrNotFound) {
				t.Errorf("LoadDAG: %v, want an error that leaves it open", err)
			}
			if err := s.PutDAG(ctx, version(t, 1, "{}")); err == nil || errors.Is(err, schedule.ErrExists) {
				t.Errorf("PutDAG: %v, want an error that leaves it open", err)
			}
		})
	}
}

func TestAnAddressThatIsNoneIsRefused(t *testing.T) {
	for address, says := range map[string]string{
		"":                      "neither s3:// nor file://",
		"gs://flows":            "endpoint=",
		"flows":                 "neither",
		"s3://":                 "s3://BUCKET",
		"s3://flows/folder":     "prefix=",
		"s3://key:secret@flows": "AWS_ACCESS_KEY_ID",
		"file://folder/flows":   "three slashes",
		"mem://":                "neither",
	} {
		if _, err := bucket.Open(t.Context(), address); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v, want %q", address, err, says)
		}
	}
	if _, err := bucket.Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there was opened")
	}
}
