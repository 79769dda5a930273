// Package result reads what executors return with the end of a run. The end is worth more than the
// result: a part that cannot be kept is left out, and the result says why.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
)

// Artifact is an artifact as it was sent.
type Artifact struct {
	Name   string  `json:"name"`
	URL    string  `json:"url"`
	Bytes  float64 `json:"bytes"`
	SHA256 string  `json:"sha256"`
}

// Of returns a result with its artifacts; nil: there is neither.
func Of(raw []byte, artifacts []Artifact) *schedule.RunResult {
	return of(raw, artifacts, nil)
}

// Members are those of an executor's JSON answer, as they were sent: each can be anything.
type Members struct {
	ExitCode  json.RawMessage `json:"exit_code"`
	Result    json.RawMessage `json:"result"`
	Artifacts json.RawMessage `json:"artifacts"`
}

// Read returns the exit code and the result of an answer.
func (m *Members) Read() (exitCode *int32, r *schedule.RunResult) {
	var problems []string
	if !isNone(m.ExitCode) && json.Unmarshal(m.ExitCode, &exitCode) != nil {
		exitCode = nil
		problems = append(problems, "exit_code "+schedule.Quote(string(m.ExitCode))+" is not a whole number of 32 bits: it was not kept")
	}
	var sent []Artifact
	if !isNone(m.Artifacts) && json.Unmarshal(m.Artifacts, &sent) != nil {
		sent = nil
		problems = append(problems, "artifacts is not a list of {name, url, bytes, sha256}: no artifact was kept")
	}
	return exitCode, of(m.Result, sent, problems)
}

func of(raw []byte, artifacts []Artifact, problems []string) *schedule.RunResult {
	var r schedule.RunResult
	if !isNone(raw) {
		if refused := badResult(raw); refused != "" {
			problems = append(problems, "result "+refused+": it was not kept")
		} else {
			r.Result = bytes.Clone(raw)
		}
	}
	var refused string
	if r.Artifacts, refused = kept(artifacts); refused != "" {
		problems = append(problems, refused+": no artifact was kept")
	}
	if r.Result == nil && len(r.Artifacts) == 0 && len(problems) == 0 {
		return nil
	}
	r.Problem = schedule.Storable(strings.Join(problems, "; "), schedule.MaxResultNote)
	return &r
}

func isNone(raw []byte) bool {
	text := bytes.TrimSpace(raw)
	return len(text) == 0 || string(text) == "null"
}

func badResult(raw []byte) string {
	if len(raw) > schedule.MaxResult {
		return fmt.Sprintf("has %d bytes, more than %d", len(raw), schedule.MaxResult)
	}
	return rawjson.Problem(raw, schedule.MaxJSONDepth)
}

// kept are artifacts as they are stored: all, or none and why.
func kept(sent []Artifact) (all []schedule.Artifact, problem string) {
	if len(sent) > schedule.MaxArtifacts {
		return nil, fmt.Sprintf("artifacts has %d entries, more than %d", len(sent), schedule.MaxArtifacts)
	}
	for i := range sent {
		a := &sent[i]
		if field, problem := badArtifact(a); problem != "" {
			return nil, fmt.Sprintf("artifacts[%d].%s %s", i, field, problem)
		}
		all = append(all, schedule.Artifact{Name: a.Name, URL: a.URL, Bytes: int64(a.Bytes), SHA256: a.SHA256})
	}
	return all, ""
}

func badArtifact(a *Artifact) (field, problem string) {
	switch {
	case a.Name == "":
		return "name", "is required"
	case len(a.Name) > schedule.MaxArtifactName:
		return "name", fmt.Sprintf("has %d bytes, more than %d", len(a.Name), schedule.MaxArtifactName)
	case !isText(a.Name):
		return "name", schedule.Quote(a.Name) + " contains control characters or invalid text"
	case a.Bytes < 0 || a.Bytes > schedule.MaxArtifactSize || a.Bytes != math.Trunc(a.Bytes):
		return "bytes", fmt.Sprintf("%v is not a whole number from 0 to %d", a.Bytes, int64(schedule.MaxArtifactSize))
	case a.SHA256 != "" && !isSHA256(a.SHA256):
		return "sha256", schedule.Quote(a.SHA256) + " is not 64 hex digits in lower case"
	}
	return "url", badURL(a.URL)
}

// badURL says what is wrong with the URL of an artifact. Any scheme is allowed: artifacts are also in
// buckets. The console links only http and https.
func badURL(text string) string {
	if text == "" {
		return ""
	}
	if len(text) > schedule.MaxArtifactURL {
		return fmt.Sprintf("has %d bytes, more than %d", len(text), schedule.MaxArtifactURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || !u.IsAbs() || !isText(text):
		return "is not an absolute URL"
	case u.User != nil:
		return "holds credentials"
	}
	return ""
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
