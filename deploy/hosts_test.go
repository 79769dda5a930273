package deploy_test

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Where AUTH is off, a process answers only to known names; those by which the
// other services of compose call it are among them.
func TestEveryServiceOfComposeIsCalledByANameThatItAnswersTo(t *testing.T) {
	t.Parallel()
	var prometheus struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &prometheus)
	services, seen := composed(t), 0
	for _, job := range prometheus.ScrapeConfigs {
		for _, static := range job.StaticConfigs {
			for _, target := range static.Targets {
				host, _, err := net.SplitHostPort(target)
				service, ok := services[host]
				if err != nil || !ok {
					t.Errorf("Prometheus reads %q, which is no service", target)
					continue
				}
				seen++
				public, err := url.Parse(service.env["PUBLIC_URL"])
				if err != nil {
					t.Fatal(err)
				}
				if service.env["AUTH"] == "off" && public.Hostname() != host && !slices.Contains(strings.Split(service.env["ALLOWED_HOSTS"], ","), host) {
					t.Errorf("%s refuses the host %q: it is neither in PUBLIC_URL nor in ALLOWED_HOSTS", host, host)
				}
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d targets are services, want 4", seen)
	}
}
