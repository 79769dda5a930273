package deploy_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// composeVariable is a variable of compose with its default.
var composeVariable = regexp.MustCompile(`^\$\{([A-Z_]+):-([^}]*)\}$`)

type composeFile struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Ports       []string
	}
	Networks map[string]struct{ Name string }
}

// Executors report to PUBLIC_URL, so an executor has to reach it from the place
// where EXECUTOR_URL finds the executor.
func TestAnExecutorContainerOfComposeCanReport(t *testing.T) {
	t.Parallel()
	var file composeFile
	readYAML(t, "compose/compose.yaml", &file)
	if name := file.Networks["default"].Name; name != "carillon" {
		t.Errorf("the default network is called %q: `docker run --network carillon` does not find it", name)
	}
	for name, s := range file.Services {
		if s.Image != "carillon" || s.Command[0] != "serve" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			public := composeVariable.FindStringSubmatch(s.Environment["PUBLIC_URL"])
			if public == nil || public[1] != "PUBLIC_URL" {
				t.Fatalf("PUBLIC_URL is %q: an executor outside of compose cannot be given another address", s.Environment["PUBLIC_URL"])
			}
			u, err := url.Parse(public[2])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(file.Services[u.Hostname()].Command, "registrar") || u.Port() != "8080" {
				t.Errorf("PUBLIC_URL is %s by default, which is no registrar at port 8080", u)
			}
			if allowed := strings.Split(s.Environment["ALLOWED_HOSTS"], ","); !slices.Contains(allowed, u.Hostname()) {
				t.Errorf("with another PUBLIC_URL the host %s is refused: ALLOWED_HOSTS is %v", u.Hostname(), allowed)
			}
			if !strings.HasPrefix(s.Environment["REPORT_SECRET"], "${REPORT_SECRET:?") {
				t.Errorf("REPORT_SECRET is %q: each process makes its own, and refuses the tokens of the others", s.Environment["REPORT_SECRET"])
			}
			executor := composeVariable.FindStringSubmatch(s.Environment["EXECUTOR_URL"])
			if slices.Contains(s.Command, "launcher") && (executor == nil || strings.Contains(executor[2], "host.docker.internal")) {
				t.Errorf("EXECUTOR_URL is %q by default: an executor on the host cannot report to %s", s.Environment["EXECUTOR_URL"], u)
			}
		})
	}
}

func TestComposeSaysWhereAnExecutorOnTheHostReports(t *testing.T) {
	t.Parallel()
	var file composeFile
	readYAML(t, "compose/compose.yaml", &file)
	text := strings.Join(lines(t, "compose/compose.yaml"), "\n")
	pair := regexp.MustCompile(`EXECUTOR_URL=http://host\.docker\.internal:\d+/run PUBLIC_URL=http://(127\.0\.0\.1:\d+)`).FindStringSubmatch(text)
	if pair == nil {
		t.Fatal("compose.yaml does not say which PUBLIC_URL an executor on the host needs")
	}
	if ports := file.Services["registrar"].Ports; !slices.Contains(ports, pair[1]+":8080") {
		t.Errorf("an executor on the host reports to %s, and the registrar publishes %v", pair[1], ports)
	}
}
