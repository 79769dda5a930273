// Package leader elects the worker that plans and fires a shard. It explains itself at
// length, because a test that passes shows little of what follows.
//
// # Row, lock and fence
//
// The row decides who leads. Table leaders has one row for each shard: holder, epoch,
// expiry. A term is (shard, holder, epoch). The holder is random for each process start, so
// a restarted process is another holder. Each term has a greater epoch than all before it.
//
// The lock makes a takeover fast. Waiting until a row expires takes seconds. A lock that
// dies with its process (a session's advisory lock, a lock file) is free a millisecond
// after a crash, and the process that waits for it may replace the row at once. The lock
// decides who tries to take over, and when, but never who may write. If it is lost, taken
// by something else or unreachable, takeovers are slow, but nothing is wrong.
//
// The fence protects the data. A leader can be paused at any line (SIGSTOP, a full disk, a
// hypervisor) and continue later without knowing; no clock helps then. So each plan, claim
// and settlement names its epoch in its own transaction, and the store refuses all but the
// newest: once epoch e+1 is committed, epoch e writes nothing. This does not depend on the
// lock, on clocks or on this package.
//
// With the fence alone two leaders would only waste work. With the row alone each deploy
// would cost a TTL. With the lock alone a stopped process would lead forever, and a
// terminated session would lead without knowing.
//
// # States
//
//	away      pauses for a moment: after a failed start, after a term, after giving
//	          the lock back
//	follower  waits for the lock, and reads the row every half second
//	leader    has won a term, with or without the lock
//
//	away ──────── the pause is over, the process is healthy ──────▶ follower
//	follower ──── lock held ──────────▶ takeover ── won ──────────▶ leader
//	follower ──── row expired ────────▶ takeover ── won ──────────▶ leader (without the lock)
//	follower ──── lock held, but the leader leads without it ─────▶ away (the lock given back)
//	follower ──── lock held, but the leader has another kind ─────▶ away (the lock given back)
//	follower ──── lock held, but another worker should lead ──────▶ away (the lock given back)
//	leader ────── keeping the lock or renewing the row fails ─────▶ away (term lost)
//	leader ────── asked to resign, by a user or the balancer ─────▶ away (term given back)
//	leader ────── the process ends ───────────────────────────────▶ gone (term given back)
//
// A takeover is one transaction: if the lock is held, or the row has expired, the epoch
// grows by one and the row belongs to the new holder for a TTL. It waits for open
// transactions of the old epoch, so none of them can commit after it.
//
// A leader that won because the row had expired has no lock. Its row says so. It continues
// to wait for the lock, and the next renewal after it has the lock updates the row. A
// follower that gets the lock before reads in the row that the lock proves nothing, and
// gives it back, so that the leader gets it. Behind a lock on Postgres such a leader also
// ends the session that holds the lock: a process that is stopped forever would keep it.
//
// Workers may use different kinds of lock for a while, when LEADER_LOCK is changed in one
// after the other. The row has the kind of its leader's lock. A lock of another kind proves
// nothing about that leader: its holder waits until the row has expired. So no leader is
// replaced while it lives, a leader that stops hands over at once, and only after a kill
// the shard waits for a TTL.
//
// A term that ends is always resigned, also one that was lost because the store did not
// answer: a resignation names the epoch and cannot harm a later term. A term whose takeover
// was committed without an answer is resigned too. The row is given back before the lock,
// so the next holder can tell a handover (expired) from a death (not expired). After a
// handover, a worker that leads more shards than another lets that one go first, once.
//
// # Clocks
//
// The row expires by the store's clock alone: the database's on Postgres, the machine's on
// SQLite, which all processes share. Takeovers and renewals are judged there, in the
// statement that writes them.
//
// A leader measures its trust in a term on its own monotonic clock, which does not move
// when the wall clock is set. Trust counts from the start of the last successful attempt,
// not from its answer, because the store may have extended the row at any moment after that
// start. It is shorter than the TTL by a margin for clocks of different speed: a second, or
// a quarter of the TTL if that is less. A timer ends it, whatever a renewal is doing. At the
// smallest TTL, 2 s, that leaves 1.5 s of trust and three attempts of half a second.
//
// Renewals come each second (each quarter of the TTL if that is less), more often than a
// TTL of 10 s needs. So a lost session, or a request to resign, is noticed within a second.
//
// # What happens when
//
// kill -9, crash, out of memory: the kernel closes the connections, Postgres frees the
// lock, the next process in its queue takes over within milliseconds. With a lock file at
// its next attempt. On Redis the key lives until its TTL has passed.
//
// SIGTERM: lead returns as soon as it has stopped planning and claiming; then row and lock
// are given back. The elector does not wait for open calls.
//
// SIGSTOP, a frozen virtual machine: the row expires, a follower takes over without the
// lock and ends the session that holds it. When the old leader continues, a timer has ended
// its trust, the store refuses its writes, and its resignation names only its old term. The
// monotonic clock of a suspended machine stops: its leader learns from the fence or
// from the next renewal.
//
// The lock's session is terminated (pg_terminate_backend, a firewall): a follower gets the
// lock and takes over at once. The old leader notices at its next renewal, which uses that
// session (Keep). Until then two processes believe that they lead; the fence lets one write.
//
// Packets between a leader and its database are lost: no renewal is answered, trust ends,
// the row expires, and a follower that still reaches the database takes over. Server and
// client give up such a connection after about five seconds (keepalives,
// TCP_USER_TIMEOUT); by default they would after two hours.
//
// Postgres restarts or fails over: all locks and connections are gone. The leader loses its
// term at the next renewal and becomes a follower. All retry with growing pauses of at most
// a second, with jitter, and the first that gets the lock leads: the row says that the old
// leader had the lock, so it does not have to expire. A failover that loses the last writes
// may bring back an older row, and its epoch is used again. The store has then lost the
// writes of that epoch too, and the keys that executors know protect the rest.
//
// Redis loses its data (FLUSHALL, a restart without persistence, DEL): another process gets
// the lock and takes over; the old leader notices within a second. The epoch is in SQL.
//
// Redis does not answer (CLIENT PAUSE, a partition): the leader cannot keep its lock and
// gives its term back. The row is free, and some worker leads without a lock until Redis
// answers. Meanwhile a takeover from a killed process takes a TTL.
//
// Something else writes the lock's key: the leader has lost it, and no process can take it
// before it expires. A key that never expires, which this package never writes, is removed
// by the leader that leads without it.
//
// A wrong clock: MayLead refuses. Such a process does not wait for the lock, and gives up
// its term at the next renewal. On Postgres its clock could not have moved the row anyway.
//
// The launcher cannot be reached: the process may lead, but what it claims would wait. Its
// heartbeats say that it is unhealthy, and its Balancer resigns its shards while another
// worker is alive and healthy, with one shard as with many. If no worker is healthy, nothing
// changes: slots must be planned, and their catch-up policies apply, in any case.
//
// Another number of shards than the database has recorded: the worker logs it once, holds
// no lock, and asks again every few seconds, so setting the number back is enough.
//
// A transaction-mode pooler between Carillon and Postgres would lend the lock's session to
// others: package pglock recognises it, and the process refuses to start.
//
// Any other error: not the leader. There is no list of harmless errors.
package leader
