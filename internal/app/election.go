package app

import (
	"fmt"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/worker"
	"github.com/carillon/carillon/worker/leader"
	"github.com/carillon/carillon/worker/leader/pglock"
	"github.com/carillon/carillon/worker/leader/redislock"
	"github.com/carillon/carillon/worker/leader/solo"
)

// electors campaign for one shard each under the id of this process. The balancer keeps the share of
// each process fair; unhealthy returns why this process should lead no shard (nil: never).
func (a *App) electors(metrics *worker.Metrics, unhealthy func() string) ([]worker.Elector, worker.Balancer, error) {
	newLock, err := a.locks()
	if err != nil {
		return nil, nil, err
	}
	electors := make([]*leader.Elector, a.cfg.Shards)
	balancer := leader.NewBalancer(leader.BalancerOptions{
		Store: a.store, Holder: a.id, Shards: a.cfg.Shards, Now: a.store.Now, Logger: a.log,
		Resign: func(shard int, why schedule.TermEnd) { electors[shard].ResignBecause(why) }, Unhealthy: unhealthy,
	})
	all := make([]worker.Elector, a.cfg.Shards)
	for shard := range electors {
		electors[shard] = leader.New(leader.Options{
			Lease: a.store, Terms: a.store, Host: thisHost(), Lock: newLock(shard), LockKind: a.cfg.lockKind(), Shard: shard, Shards: a.cfg.Shards, Holder: a.id, TTL: ms(a.cfg.LeaderTTLMS),
			Now: a.store.Now, Logger: a.log, MayLead: a.checkSkew, Defer: balancer.Defer(shard), OnChange: metrics.LeadershipChanged,
		})
		all[shard] = electors[shard]
	}
	return all, balancer, nil
}

// lockKind is LEADER_LOCK or its default.
func (c *Config) lockKind() string {
	switch {
	case c.LeaderLock != "":
		return c.LeaderLock
	case c.OnPostgres():
		return "postgres"
	}
	return "solo"
}

// locks returns the constructor of leader locks for LEADER_LOCK.
func (a *App) locks() (newLock func(shard int) leader.Lock, err error) {
	switch a.cfg.lockKind() {
	case "redis":
		client, err := redislock.Client(a.cfg.RedisURL.Reveal())
		if err != nil {
			return nil, err
		}
		a.redis = client
		return func(shard int) leader.Lock { return redislock.New(client, shard, ms(a.cfg.LeaderTTLMS)) }, nil
	case "postgres":
		// Opening the store has refused poolers that lose session locks.
		return func(shard int) leader.Lock { return pglock.New(a.cfg.DatabaseURL.Reveal(), shard) }, nil
	}
	return func(shard int) leader.Lock {
		path := a.cfg.sqlitePath() + ".lock"
		if shard > 0 {
			path += fmt.Sprint(".", shard)
		}
		return solo.New(path, a.log)
	}, nil
}
