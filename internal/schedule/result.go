package schedule

import (
	"encoding/json"
	"time"
)

// Limits of what an executor returns with the end of a run.
const (
	MaxResult       = 64 << 10 // bytes of JSON
	MaxArtifacts    = 20
	MaxArtifactName = 256     // bytes
	MaxArtifactURL  = 2048    // bytes
	MaxArtifactSize = 1 << 53 // bytes: JSON has no larger exact numbers
	MaxResultNote   = 1024    // bytes of RunResult.Problem
)

// RunResult is what an executor returned with the end of a run. It is written with the end and
// never changes.
type RunResult struct {
	Result    json.RawMessage // nil: none
	Artifacts []Artifact
	Problem   string    // why a part of it was not kept; "": all of it was
	ExpiresAt time.Time // it is deleted after
}

// Artifact names something that a run has stored elsewhere.
type Artifact struct {
	Name   string `json:"name"`
	URL    string `json:"url,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`  // 0: not known
	SHA256 string `json:"sha256,omitempty"` // 64 hex digits; "": not known
}

// Until returns the result with the end of its retention; nil of nil.
func (r *RunResult) Until(expires time.Time) *RunResult {
	if r == nil {
		return nil
	}
	kept := *r
	kept.ExpiresAt = expires
	return &kept
}

// ProblemText is the problem of a result that may be nil.
func (r *RunResult) ProblemText() string {
	if r == nil {
		return ""
	}
	return r.Problem
}
