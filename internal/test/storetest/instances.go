package storetest

import (
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

var instances = []check{
	{"an instance is listed with what its last heartbeat said", instancesSayWhoTheyAre},
	{"instances are listed while they are seen, and no longer than they stay", instancesSeen},
	{"an instance keeps its number from heartbeat to heartbeat", instancesKeepTheirNumber},
	{"an instance that registers again keeps what its heartbeats said", instancesRegister},
	{"a row is deleted a day after its instance was last seen, once no open call names it", instancesPruned},
}

// listed are the instances with roles of the last hour.
func (r *rig) listed() []schedule.Instance {
	r.Helper()
	all, err := r.Instances(r.ctx, time.Hour)
	r.ok(err, "list instances")
	return all
}

func (r *rig) beats(i schedule.Instance) {
	r.Helper()
	r.ok(r.Heartbeat(r.ctx, i), "heartbeat")
}

// instanceOf is what a process says of itself.
func (r *rig) instanceOf(name string) schedule.Instance {
	return schedule.Instance{ID: r.id(name), Host: "box:4711", Version: "v1.2.3", Roles: []string{"registrar", "worker"}, Features: []string{"segments"}, StartedAt: noon}
}

func instancesSayWhoTheyAre(r *rig) {
	said, other := r.instanceOf("a"), r.instanceOf("b")
	for _, unhealthy := range []string{"", "launcher at 127.0.0.1:1: refused", "another reason", ""} {
		said.Unhealthy = unhealthy
		r.beats(said)
		r.beats(other)
		got := r.listed()
		for i := range got {
			got[i].No, got[i].SeenAt = 0, time.Time{}
		}
		equal(r, "instances", got, []schedule.Instance{said, other})
	}
}

func instancesSeen(r *rig) {
	listed := func() (ids []string) {
		for _, i := range r.listed() {
			r.hold(i.StartedAt.Equal(noon), "%s started at %s, got %s", i.ID, noon, i.StartedAt)
			r.hold(i.SeenAt.Location() == time.UTC && time.Since(i.SeenAt).Abs() < time.Hour, "%s was seen now, by the clock, got %s", i.ID, i.SeenAt)
			ids = append(ids, i.ID)
		}
		return ids
	}
	equal(r, "instances of an empty store", listed(), nil)
	for _, name := range []string{"b", "a", "C", "b"} {
		r.beats(r.instanceOf(name))
	}
	equal(r, "instances", listed(), []string{r.id("C"), r.id("a"), r.id("b")})
	none, err := r.Instances(r.ctx, -time.Hour)
	r.hold(err == nil && len(none) == 0, "none was seen after now, got %+v, %v", none, err)
	r.ok(r.Leave(r.ctx, r.id("a")), "leave")
	r.ok(r.Leave(r.ctx, r.id("nobody")), "leave without having come")
	equal(r, "instances once one has left", listed(), []string{r.id("C"), r.id("b")})
	r.beats(r.instanceOf("a"))
	equal(r, "instances once it is back", listed(), []string{r.id("C"), r.id("a"), r.id("b")})
}

func instancesKeepTheirNumber(r *rig) {
	first := r.lives("first")
	r.beats(r.instanceOf("first"))
	r.beats(r.instanceOf("first"))
	got := r.listed()
	r.hold(len(got) == 1 && got[0].No == first.no && got[0].Generation != "", "one row with the number %d and its generation, got %+v", first.no, got)
}

func instancesRegister(r *rig) {
	said := r.instanceOf("first")
	said.Unhealthy = "no presence lock"
	r.beats(said)
	again := r.registers("first")
	got := r.listed()
	r.hold(len(got) == 1 && got[0].No == again.no, "one row with the number %d, got %+v", again.no, got)
	got[0].No, got[0].SeenAt, said.Host, said.StartedAt = 0, time.Time{}, got[0].Host, got[0].StartedAt
	equal(r, "instance", got[0], said)
}

func instancesPruned(r *rig) {
	ager, ok := r.Store.(Ager)
	if !ok {
		r.Fatal("the adapter of the store makes no instances older")
	}
	r.lead()
	run := r.bring(r.slot(r.create("s"), r.now), schedule.StatusLaunching)
	holder := r.lives("holder")
	r.granted(r.beginRequest(run, func(b *schedule.BeginRequest) { b.Holder = holder.no }))
	names := []string{"one", "two", "three", "young", "holder"}
	for _, name := range names {
		r.beats(r.instanceOf(name))
		age := 25 * time.Hour
		if name == "young" {
			age = 23 * time.Hour
		}
		r.ok(ager.Age(r.ctx, r.id(name), age), "make it older")
	}
	long := r.at(-1000 * time.Hour)
	n := r.prune(long, 2)
	r.hold(n == 2, "at most two go at once, got %d", n)
	n = r.pruneAll(long)
	r.hold(n == 1, "the third one goes then, got %d", n)
	all, err := r.Instances(r.ctx, 48*time.Hour)
	r.hold(err == nil && len(all) == 2, "the young one and the holder of an open key stay, got %+v, %v", all, err)
	r.finish(run.Key, accepted)
	r.succeed(run)
	n = r.pruneAll(long)
	r.hold(n == 1, "the holder goes once its run has ended, got %d", n)
}
