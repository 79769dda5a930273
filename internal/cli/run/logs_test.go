package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestLogsAreShownByLineAndStep(t *testing.T) {
	pages := map[uint32]*carillonv1.GetRunLogsResponse{
		0: {NextAfter: 2, Status: "STARTED", Parts: []*carillonv1.LogPart{
			{Seq: 1, Step: "fetch", Text: "one\ntwo\n"}, {Seq: 2, Step: "load", Text: "\x1b[31mred\x1b[0m\a", SkippedBytes: 99},
		}},
		2: {NextAfter: 3, Status: "FAILED", Parts: []*carillonv1.LogPart{{Seq: 3, Step: "fetch", Text: "three\n"}}},
		3: {NextAfter: 3, Status: "FAILED", Complete: true},
	}
	reported := map[uint32]*carillonv1.GetRunLogsResponse{
		0: {NextAfter: 1, Status: "STARTED", Parts: []*carillonv1.LogPart{{Seq: 1, Text: "one\n"}}},
		1: {NextAfter: 2, Status: "STARTED", Parts: []*carillonv1.LogPart{{Seq: 2, Text: "one\ntwo\n"}}},
		2: {NextAfter: 3, Status: "SUCCESS", Complete: true, Parts: []*carillonv1.LogPart{{Seq: 3, Text: "all else\n"}}},
	}
	tailed := map[uint32]*carillonv1.GetRunLogsResponse{
		0: {NextAfter: 2, Status: "STARTED", Parts: []*carillonv1.LogPart{{Seq: 2, Text: "two\n"}}},
		2: {NextAfter: 3, Status: "SUCCESS", Complete: true, Parts: []*carillonv1.LogPart{{Seq: 3, Text: "one\ntwo\nthree\n"}}},
	}
	none := map[uint32]*carillonv1.GetRunLogsResponse{0: {Status: "SUCCESS", Complete: true}}
	for _, c := range []struct {
		name      string
		pages     map[uint32]*carillonv1.GetRunLogsResponse
		args      string
		out, errs string
	}{
		{"every page, each line behind its step", pages, "", "fetch | one\nfetch | two\nload | [99 bytes of output not kept]\nload | red\uFFFD\nfetch | three\n", ""},
		{"followed to the end of the run", pages, "-f", "fetch | one\nfetch | two\nload | [99 bytes of output not kept]\nload | red\uFFFD\nfetch | three\n", ""},
		{"of one step without its name", map[uint32]*carillonv1.GetRunLogsResponse{0: {NextAfter: 1, Complete: true, Parts: pages[2].Parts}}, "--step fetch", "three\n", ""},
		{"what later reports add, and what replaces it", reported, "-f", "one\ntwo\nall else\n", ""},
		{"the last line, and what later reports add", tailed, "-f --tail 1", "two\nthree\n", ""},
		{"no line, and what follows", map[uint32]*carillonv1.GetRunLogsResponse{0: {NextAfter: 2, Status: "STARTED"}, 2: pages[2], 3: pages[3]}, "-f --tail 0", "fetch | three\n", ""},
		{"no line", map[uint32]*carillonv1.GetRunLogsResponse{0: {NextAfter: 2, Status: "SUCCESS", Complete: true}}, "--tail 0", "", ""},
		{"all lines", map[uint32]*carillonv1.GetRunLogsResponse{0: {NextAfter: 1, Complete: true, Parts: pages[2].Parts}}, "--tail -1", "fetch | three\n", ""},
		{"no output", none, "", "", "no output is kept"},
		{"no output of a step", none, "--step nix", "", "no output of a step nix is kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := clitest.NewServer(t)
			f.Answers["GetRunLogs"] = func(req proto.Message) (proto.Message, error) {
				return c.pages[req.(*carillonv1.GetRunLogsRequest).GetAfter()], nil
			}
			got := f.Run(t, append([]string{"run", "logs", clitest.KeyA}, strings.Fields(c.args)...)...)
			if got.Code != 0 || got.Out != c.out || !strings.Contains(got.ErrOut, c.errs) || c.errs == "" && got.ErrOut != "" {
				t.Errorf("exit %d\n%s\n%s\nwant\n%s\n%s", got.Code, got.Out, got.ErrOut, c.out, c.errs)
			}
		})
	}
}

func TestTheTailIsAskedForOnce(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answers["GetRunLogs"] = func(req proto.Message) (proto.Message, error) {
		return &carillonv1.GetRunLogsResponse{NextAfter: 7, Status: "SUCCESS", Complete: req.(*carillonv1.GetRunLogsRequest).GetAfter() == 7}, nil
	}
	if got := f.Run(t, "run", "logs", clitest.KeyA, "-f", "--tail", "20"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	var asked []*carillonv1.GetRunLogsRequest
	for _, req := range f.Requests() {
		asked = append(asked, req.(*carillonv1.GetRunLogsRequest))
	}
	if len(asked) != 2 || asked[0].GetTailLines() != 20 || asked[0].GetAfter() != 0 || asked[1].TailLines != nil || asked[1].GetAfter() != 7 {
		t.Errorf("asked %v", asked)
	}
	for _, n := range []string{"-2", "10001"} {
		if got := f.Run(t, "run", "logs", clitest.KeyA, "--tail", n); got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, "--tail "+n+" is not within 0 to 10000, or -1 for all lines") {
			t.Errorf("--tail %s: %+v", n, got)
		}
	}
}

func TestAReportTakesTheEndOfAFile(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answer("ReportRun", &carillonv1.ReportRunResponse{Run: clitest.FailedRun(), Moved: true})
	path := filepath.Join(t.TempDir(), "job.log")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 100<<10)+"\n\xff\x1b[31mlast\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.Run(t, "run", "report", clitest.KeyA, "FAILED", "--output-file", path, "--exit-code", "0", "--log-url", "https://ci.example/1"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	req := f.Requests()[0].(*carillonv1.ReportRunRequest)
	if len(req.GetOutput()) > schedule.MaxReportedOutput || !strings.HasSuffix(req.GetOutput(), "x\n\uFFFDlast\n") || req.ExitCode == nil || req.GetLogUrl() == "" {
		t.Errorf("sent %d bytes ending in %q, %v", len(req.GetOutput()), req.GetOutput()[len(req.GetOutput())-20:], req.ExitCode)
	}
	if got := f.Run(t, "run", "report", clitest.KeyA, "FAILED", "--output-file", path+"x"); got.Code != command.ExitFailed || !strings.Contains(got.ErrOut, "--output-file: ") {
		t.Errorf("%+v", got)
	}
}

func TestExplainAndGetLeadToTheLogsOfARun(t *testing.T) {
	f := clitest.NewServer(t)
	run := clitest.FailedRun()
	run.ExitCode, run.LogUrl, run.TraceUrl = proto.Int32(3), proto.String("https://logs.example/1"), proto.String("https://traces.example/1")
	f.Answer("ExplainSlot", &carillonv1.ExplainSlotResponse{ScheduleId: "nightly", Time: run.GetRunAt(), Verdict: "failed", Run: run})
	f.Answer("GetRun", &carillonv1.GetRunResponse{Run: run})
	for _, args := range [][]string{{"explain", "nightly", "2026-03-08T02:30:00Z"}, {"run", "get", clitest.KeyA}} {
		got := f.Run(t, args...)
		for _, want := range []string{"https://logs.example/1", "https://traces.example/1"} {
			if got.Code != 0 || !strings.Contains(got.Out, want) {
				t.Errorf("%v: exit %d, %q lacks %q", args, got.Code, got.Out, want)
			}
		}
	}
}
