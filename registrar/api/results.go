package api

import (
	"github.com/carillon/carillon/internal/result"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// resultOf is what a report returns with the end of its run, and why a part of it is not kept.
func resultOf(req *carillonv1.ReportRunRequest) (returned *schedule.RunResult, problem string) {
	sent := make([]result.Artifact, len(req.GetArtifacts()))
	for i, a := range req.GetArtifacts() {
		sent[i] = result.Artifact{Name: a.GetName(), URL: a.GetUrl(), Bytes: a.GetBytes(), SHA256: a.GetSha256()}
	}
	returned = result.Of(req.GetResult(), sent)
	if returned != nil && req.GetStatus() == string(schedule.StatusStarted) {
		return nil, "result and artifacts are for the end of a run: send them with SUCCESS or FAILED"
	}
	return returned, returned.ProblemText()
}

// commitOf is what a report commits with the success of its run; nil: nothing. Like other members of
// an end it is ignored with another status.
func commitOf(key schedule.Key, req *carillonv1.ReportRunRequest) (*schedule.Commit, error) {
	if req.GetStatus() != string(schedule.StatusSuccess) {
		return nil, nil
	}
	return result.CommitIn(key, req)
}

// addResult adds what the executor returned with the end of a run; nil: nothing.
func addResult(run *carillonv1.Run, r *schedule.RunResult) {
	if r == nil {
		return
	}
	run.Result, run.ResultProblem, run.ResultExpiresAt = r.Result, r.Problem, timestamp(r.ExpiresAt)
	for i := range r.Artifacts {
		a := &r.Artifacts[i]
		run.Artifacts = append(run.Artifacts, &carillonv1.RunArtifact{Name: a.Name, Url: a.URL, Bytes: float64(a.Bytes), Sha256: a.SHA256})
	}
}

// progressOf is the progress of a report; nil: it has none.
func progressOf(p *carillonv1.RunProgress) *schedule.ProgressValues {
	if p == nil {
		return nil
	}
	return &schedule.ProgressValues{Done: p.GetDone(), Total: p.GetTotal(), Note: p.GetNote()}
}
