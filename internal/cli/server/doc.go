// Package server has the commands of those who run Carillon: serve, dev, migrate,
// doctor, health, shards, token, worker and audit.
package server
