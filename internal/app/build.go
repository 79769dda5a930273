package app

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// showBuild registers carillon_build_info, which distinguishes releases during a rolling upgrade, and
// environments. It returns the displayed release.
func showBuild(registry prometheus.Registerer, version, environment string) string {
	if version == "" {
		version = "(unknown)"
	}
	labels := prometheus.Labels{"version": version, "go_version": runtime.Version()}
	if environment != "" {
		labels["environment"] = environment
	}
	promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "carillon_build_info", Help: "Always 1. The labels are the release, the Go version and ENVIRONMENT.", ConstLabels: labels,
	}).Set(1)
	return version
}
