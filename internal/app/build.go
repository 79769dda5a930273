package app

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// showBuild registers carillon_build_info, which tells releases apart during a
// rolling upgrade. It returns the release as it is shown.
func showBuild(registry prometheus.Registerer, version string) string {
	if version == "" {
		version = "(unknown)"
	}
	promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "carillon_build_info", Help: "Always 1. The labels are the release and the Go version.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
	return version
}
