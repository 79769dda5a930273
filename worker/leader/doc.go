// Package leader decides which worker plans and fires a shard. It is what makes
// steps 2 to 4 of a slot's life the work of one process at a time, and it is
// prose first, because none of it shows in a test that passes.
//
// # Why three things
//
// The row. One row of leaders per shard says who leads: holder, epoch, expiry.
// Only it decides. A term is (shard, holder, epoch): the holder is random per
// process start, so a process that was started again is somebody else, and
// every term has an epoch of its own, greater than any before.
//
// The lock. Waiting for a row to expire takes seconds. A lock that dies with
// its process (an advisory lock's session, a lock file) is free a millisecond
// after a crash, so whoever waits for it may replace the row at once. It
// decides who tries, and when; never who may write. A lock that is gone, taken
// by a stranger or out of reach makes handing over slow, and nothing wrong.
//
// The fence. A leader can be paused at any line (SIGSTOP, a full disk, a
// hypervisor) and go on later in good faith. No clock helps it there. So each
// plan, claim and settle names its epoch in its own transaction, and the store
// refuses all but the newest: once epoch e+1 is committed, nothing is written
// by e. This holds whatever lock, clock and this package do.
//
// With the fence alone two leaders would only waste work; with the row alone
// every deploy would cost a TTL; with the lock alone a stopped process would
// lead for ever, and a terminated session would lead without knowing.
//
// # States
//
//	away      waits behind the others for a moment: after a start that failed,
//	          a term that ended, a lock that was given back
//	follower  waits for the lock, and looks at the row every half second
//	leader    has won a term; with the lock, or without it
//
//	away ──────── the pause is over, and the process is fit ──────▶ follower
//	follower ──── lock held ──────────▶ takeover ── won ──────────▶ leader
//	follower ──── row expired ────────▶ takeover ── won ──────────▶ leader (without the lock)
//	follower ──── lock held, but the leader lives without it ─────▶ away (the lock given back)
//	follower ──── lock held, but the leader has another kind ─────▶ away (the lock given back)
//	follower ──── lock held, but another worker is to lead ───────▶ away (the lock given back)
//	leader ────── keeping the lock or renewing the row fails ─────▶ away (term lost)
//	leader ────── asked to resign, by hand, or by the balancer ───▶ away (term given back)
//	leader ────── told to end ────────────────────────────────────▶ gone (term given back)
//
// A takeover is one transaction: the lock is held, or the row has expired; then
// the epoch grows by one and the row is the new holder's for a TTL. It waits
// for open transactions of the old epoch, so when it has returned nothing of
// the old epoch is still to be committed.
//
// A leader that won because the row had expired has no lock. It says so in its
// row, goes on waiting for the lock beside leading, and says that it has it
// with the next renewal. A follower that gets the lock in the meantime learns
// from the row that it proves nothing: it gives it back and steps aside, so
// that it comes to the leader in the end. Behind a lock on Postgres such a
// leader also ends the session that holds it: a process that is stopped for
// good would keep it for good.
//
// Workers may wait for different locks for a while (LEADER_LOCK is changed in one
// after the other). The row says which kind its leader has, and a lock of another
// kind says nothing about that leader: its holder waits until the row has
// expired, as one without a lock does. So nobody is pushed aside, a leader that
// ends makes room at once, and only one that was killed is missed for a TTL.
//
// A term that ends is always resigned, also one that was lost for want of an
// answer: resigning names the epoch and cannot harm the next. So is one that was
// won unheard, because the answer to its takeover was lost. The row is given
// back before the lock, so that whoever is next can tell a handover on purpose
// (expired) from a death (not expired): after the former, a worker that leads
// more shards than another lets that one go first, once.
//
// # Clocks
//
// The row expires by the store's clock alone: the database's on Postgres, the
// machine's on SQLite, where all processes share it. A takeover and a renewal
// are judged there, in the statement that writes them.
//
// A leader measures its trust in a term on its own monotonic clock, which no
// step of the wall clock moves. Trust counts from the start of the last attempt
// that was successful, not from its answer, because the store may have extended
// the row at any moment after that start; and it is shorter than the TTL by a
// margin, for clocks that run at different speeds: a second, or a quarter of
// the TTL where that is less. It ends by a timer of its own, whatever a renewal
// is doing. At the smallest TTL, 2 s, that leaves 1.5 s of trust and three
// attempts at half a second each.
//
// Renewals come every second (a quarter of the TTL where that is less), more
// often than a TTL of 10 s needs: so soon is a lost session noticed, and so
// soon is a leader gone that was asked to resign.
//
// # What happens when
//
// kill -9, a crash, an out-of-memory kill: the kernel closes the connections,
// Postgres frees the lock, the next in its queue takes over: milliseconds. With
// a lock file as well, at its next look. On Redis the key lives on until its TTL
// has passed.
//
// SIGTERM: lead returns as soon as it has stopped planning and claiming; row
// and lock are given back then. Calls that are still open are not the
// elector's.
//
// SIGSTOP, a frozen VM: the row expires, a follower takes over without the
// lock and ends the session that holds it. When the old leader wakes, its trust
// has ended by the same timer that was due in between; what it still sends to
// the store is fenced; what it resigns is its own old term, which changes
// nothing. A machine that was suspended has a monotonic clock that stood still:
// its leader learns from the fence or from the next renewal.
//
// The lock's session is terminated (pg_terminate_backend, a firewall that
// forgets it): a follower gets the lock and takes over at once. The old leader
// notices at its next renewal, which uses that session (Keep). Until then two
// processes believe that they lead; the fence makes it one.
//
// Packets vanish between a leader and its database: no renewal comes back,
// trust ends, the row expires, a follower that still reaches the database takes
// over. Server and client both give such a connection up after about five
// seconds (keepalives, TCP_USER_TIMEOUT), where defaults would take two hours.
//
// Postgres restarts, or fails over: everyone's lock, and every connection, is
// gone. The leader loses its term at the next renewal and becomes a follower;
// all try again after pauses that grow to a second at most, with jitter, and
// the first that gets the lock leads: the row says that the lock was the old
// leader's, so it need not expire. A failover that loses the last writes may
// bring back an older row: its epoch is then handed out once more. The store
// then has lost the writes of that epoch too, and keys that executors have seen
// protect the rest.
//
// Redis forgets everything (FLUSHALL, a restart without persistence, DEL):
// another process gets the lock and takes over; the old leader notices within a
// second. The epoch lives in SQL and does not forget.
//
// Redis does not answer (CLIENT PAUSE, a partition): the leader cannot keep its
// lock and gives its term back; the row is free, and somebody leads without a
// lock until Redis is back. Handing over then takes a TTL where a process dies.
//
// Somebody else writes the lock's key (SET by a stranger): the leader has lost
// it; nobody can take it before it expires. A key that never expires, which
// this package never writes, is removed by the leader that does without.
//
// A wrong clock: Fit refuses. A process that is unfit does not wait for the
// lock, and gives up its term at the next renewal. On Postgres its clock could
// not have moved the row anyway.
//
// The launcher cannot be reached: the process is well and may lead, but what it
// claims would wait. Its heartbeats say that it is unfit, and its Balancer
// resigns what it leads while another worker is alive and fit, with one shard as
// with many. Where nobody is fit nothing changes: slots are to be planned, and
// missed or made up for by their policies, whether or not they can be launched.
//
// Started with another number of shards than the database has recorded: it is
// told so in words, once, and asks again every few seconds, so that setting the
// number back is enough. It holds no lock meanwhile.
//
// A transaction-mode pooler between Carillon and Postgres would hand the lock's
// session to others in between: package pglock recognises it, and the process
// refuses to start.
//
// Any other error: not the leader. There is no list of harmless ones.
package leader
