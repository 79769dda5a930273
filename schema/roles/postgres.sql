-- The least that each part of Carillon needs of Postgres. Run it as a superuser,
-- or as a role that may create roles and owns the tables, once after the first
-- `carillon migrate` and again after every upgrade: it can be repeated, and
-- takes back what it does not give.
--
-- These roles cannot log in. Give each process a login of its own that is in one
-- of them, and name it in that process' DATABASE_URL:
--
--   CREATE ROLE carillon_migrate  LOGIN PASSWORD '…' IN ROLE sched_owner;
--   ALTER  ROLE carillon_migrate  SET role = 'sched_owner';   -- what it creates is the owner's
--   CREATE ROLE carillon_api      LOGIN PASSWORD '…' IN ROLE sched_api;       -- ROLES=registrar
--   CREATE ROLE carillon_worker   LOGIN PASSWORD '…' IN ROLE sched_worker;    -- ROLES=worker
--   CREATE ROLE carillon_launcher LOGIN PASSWORD '…' IN ROLE sched_launcher;  -- ROLES=launcher
--   CREATE ROLE carillon_look     LOGIN PASSWORD '…' IN ROLE sched_ro;        -- people, dashboards
--
-- A process with several roles needs a login that is in all of theirs. All
-- workers share one login: one ends the session of another that hangs.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['sched_owner', 'sched_api', 'sched_worker', 'sched_launcher', 'sched_ro'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL; -- roles are the server's, and another database has them already
        END;
    END LOOP;
END $$;

-- Nobody but the owner creates anything here, and nothing is everybody's.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC, sched_api, sched_worker, sched_launcher, sched_ro;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM PUBLIC, sched_api, sched_worker, sched_launcher, sched_ro;
REVOKE CREATE ON SCHEMA public FROM sched_api, sched_worker, sched_launcher, sched_ro;
GRANT USAGE ON SCHEMA public TO sched_api, sched_worker, sched_launcher, sched_ro;
GRANT USAGE, CREATE ON SCHEMA public TO sched_owner;
REVOKE EXECUTE ON FUNCTION carillon_add_partition, carillon_drop_partition, carillon_prune_history FROM PUBLIC, sched_api, sched_worker, sched_launcher, sched_ro;
ALTER FUNCTION carillon_add_partition OWNER TO sched_owner;
ALTER FUNCTION carillon_drop_partition OWNER TO sched_owner;
ALTER FUNCTION carillon_prune_history OWNER TO sched_owner;
DROP FUNCTION IF EXISTS public.sched_keep_ledger(); -- an older version of this file made it

DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')
        AND c.relowner <> 'sched_owner'::regrole LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO sched_owner', name);
    END LOOP;
END $$;

-- Every process compares the schema's version with its own.
GRANT SELECT ON goose_db_version TO sched_api, sched_worker, sched_launcher, sched_ro;

-- The ledger. Each part ends runs: it deletes the open run and inserts one into
-- history. In history only which reports were late can be updated, and whether a failed
-- run was retried by hand. Nobody deletes: retention calls functions of the owner, which
-- keep the last 29 days. The rights on
-- ended_runs are those on its partitions.
GRANT SELECT ON schedule_runs TO sched_api, sched_worker, sched_launcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON open_runs TO sched_api, sched_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON open_runs TO sched_launcher; -- a failed run has a next attempt
GRANT SELECT, INSERT, UPDATE (late_reports, dead) ON ended_runs TO sched_api, sched_launcher;
GRANT SELECT, INSERT ON ended_runs TO sched_worker;
GRANT EXECUTE ON FUNCTION carillon_add_partition, carillon_drop_partition, carillon_prune_history TO sched_worker;

-- sched_api: the registrar. It changes schedules, and runs by hand and by
-- report. It leads nothing, and deletes no history and no events.
GRANT SELECT, INSERT, UPDATE ON schedules TO sched_api;
GRANT USAGE ON SEQUENCE schedules_sid_seq TO sched_api;
GRANT SELECT, INSERT ON schedule_revisions, workflow_versions, schedule_events, deploys, audit_log TO sched_api;
GRANT SELECT ON leaders, leader_terms, settings TO sched_api;
GRANT SELECT, INSERT, UPDATE (revoked_at, revoked_by, revoke_note) ON execution_grants TO sched_api; -- no terms, no deletion
GRANT UPDATE (asked_epoch) ON leaders TO sched_api; -- worker resign
GRANT SELECT, INSERT, UPDATE ON backfills TO sched_api;
GRANT SELECT, INSERT, UPDATE ON queues TO sched_api;
GRANT SELECT, INSERT ON queue_requests TO sched_api;
GRANT SELECT, INSERT, UPDATE ON queue_shares TO sched_api, sched_worker, sched_launcher; -- runs draw when they begin to wait
GRANT DELETE ON queue_shares TO sched_worker; -- prunes them
GRANT SELECT ON fair_clocks TO sched_api, sched_worker, sched_launcher;
GRANT INSERT, UPDATE ON fair_clocks TO sched_launcher; -- admissions move them
GRANT SELECT, INSERT, UPDATE, DELETE ON queue_states TO sched_api, sched_launcher;
GRANT USAGE ON SEQUENCE queue_positions TO sched_api, sched_worker, sched_launcher; -- the end of a group enters a run
GRANT SELECT, INSERT, UPDATE ON queue_groups TO sched_api;
GRANT SELECT, UPDATE ON queue_groups TO sched_worker, sched_launcher; -- whoever ends a member
GRANT INSERT, DELETE ON queue_groups TO sched_worker; -- runs of schedules join them; prunes them
GRANT SELECT ON queues TO sched_launcher, sched_worker;
GRANT UPDATE (updated_at) ON queues TO sched_worker; -- it locks the row, and writes none
GRANT SELECT, INSERT ON queue_events TO sched_launcher;
GRANT SELECT, DELETE ON queue_requests, queue_events TO sched_worker;
GRANT INSERT ON queue_events TO sched_worker; -- runs without the group of their schedule
GRANT SELECT, INSERT ON queue_events TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON limits, limit_keys TO sched_api;
GRANT SELECT ON limits, limit_keys TO sched_launcher, sched_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON limit_uses TO sched_api, sched_worker, sched_launcher; -- whoever ends a run
GRANT SELECT, INSERT, UPDATE, DELETE ON limit_rates TO sched_api, sched_launcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON reservations TO sched_api;
GRANT SELECT, UPDATE (granted_at, ends_at), DELETE ON reservations TO sched_launcher; -- grants them, and deletes those that are over
GRANT SELECT ON reservations TO sched_worker;
GRANT SELECT, DELETE ON limit_rates TO sched_worker; -- prunes them
GRANT SELECT ON queue_workers TO sched_api, sched_worker, sched_launcher;
GRANT INSERT, UPDATE, DELETE ON queue_workers TO sched_launcher; -- which serves their fetches
GRANT SELECT, INSERT, UPDATE, DELETE ON queue_uniques TO sched_api;
GRANT SELECT, UPDATE (run_key), DELETE ON queue_uniques TO sched_worker, sched_launcher; -- whoever ends a run
GRANT SELECT, INSERT, UPDATE ON queue_minutes TO sched_api, sched_worker, sched_launcher; -- whoever ends a run
GRANT DELETE ON queue_minutes TO sched_worker; -- prunes them
GRANT SELECT, INSERT, DELETE ON subscriptions TO sched_api; -- with the schedules that consume
GRANT SELECT ON subscriptions TO sched_worker, sched_launcher; -- for what runs publish
GRANT SELECT, INSERT, UPDATE, DELETE ON handlers TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON handlers TO sched_worker;
GRANT SELECT, INSERT, UPDATE ON handlers TO sched_launcher;
GRANT SELECT, INSERT ON events TO sched_api, sched_worker, sched_launcher; -- runs publish when they end
GRANT USAGE ON SEQUENCE events_seq_seq TO sched_api, sched_worker, sched_launcher;
GRANT DELETE ON events TO sched_worker; -- prunes them
GRANT SELECT, INSERT, UPDATE ON inbox TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON inbox TO sched_worker; -- takes, ends and prunes events
GRANT SELECT, INSERT, UPDATE ON inbox TO sched_launcher; -- whoever ends a run
GRANT SELECT, INSERT ON handler_runs TO sched_api, sched_worker, sched_launcher; -- likewise
GRANT DELETE ON handler_runs TO sched_worker;
GRANT SELECT, INSERT, UPDATE ON wakes TO sched_api, sched_launcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON wakes TO sched_worker;
GRANT SELECT ON backfill_runs TO sched_api;
GRANT SELECT, INSERT, DELETE ON workflow_shares TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON expectations, alert_targets TO sched_api; -- judges what did not happen, and tells of it
GRANT SELECT, INSERT, UPDATE ON alerts, alert_deliveries, alert_groups, alert_group_members TO sched_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON schedule_failures TO sched_api, sched_worker, sched_launcher; -- whoever ends a run
GRANT INSERT ON changes TO sched_api, sched_worker, sched_launcher; -- whoever changes runs
GRANT SELECT, INSERT ON alert_deliveries TO sched_worker, sched_launcher; -- messages about the ends of runs
GRANT SELECT, INSERT, DELETE ON run_logs TO sched_api; -- a report replaces the output of earlier ones
GRANT SELECT, INSERT ON run_results TO sched_api; -- with the ends that it reports

-- sched_worker: plans, claims, settles, leads, and prunes what retention no
-- longer keeps. Of a schedule it moves the cursor and ends a pause whose time
-- has come; it cannot say what runs, when, or whose it is.
GRANT SELECT, DELETE ON schedules TO sched_worker;
GRANT UPDATE (next_run_at, plan_at, backlog_from, backlog_until, backlog_revision, backlog_at, plan_failures,
    paused, pause_note, paused_by, paused_until, last_run_at, planned_until) ON schedules TO sched_worker;
GRANT SELECT, INSERT, DELETE ON schedule_events TO sched_worker;
GRANT SELECT, DELETE ON schedule_revisions, execution_requests, deploys, audit_log, alerts, alert_deliveries, alert_groups, alert_group_members TO sched_worker;
GRANT SELECT ON execution_grants TO sched_worker; -- judged at the claim
GRANT SELECT, INSERT, UPDATE, DELETE ON backfills, backfill_runs TO sched_worker;
GRANT SELECT, INSERT, UPDATE ON leaders, settings TO sched_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON leader_terms TO sched_worker;
GRANT SELECT, DELETE ON run_logs TO sched_worker; -- prunes them
GRANT SELECT, INSERT, DELETE ON run_results TO sched_worker; -- whoever ends a run; prunes them
GRANT SELECT, DELETE ON changes TO sched_worker; -- reads them for the leader, and prunes them
GRANT SELECT, INSERT, DELETE ON change_snapshots TO sched_worker; -- says which changes are old

-- sched_launcher: holds keys, reads what to run, and settles what executors say (their
-- reports, and what comes through a launch queue).
GRANT SELECT ON schedules, schedule_revisions, workflow_versions, workflow_shares, schedule_events, execution_grants TO sched_launcher;
GRANT UPDATE (last_run_at) ON schedules TO sched_launcher;
GRANT SELECT, INSERT, UPDATE ON execution_requests TO sched_launcher;
GRANT INSERT ON schedule_events, audit_log TO sched_launcher;
GRANT SELECT, INSERT ON run_results TO sched_launcher; -- with the ends that executors answer
GRANT SELECT, INSERT, DELETE ON run_logs TO sched_launcher; -- of the local executor, and reported

-- Every process writes its heartbeats, and one that launches the number under which it
-- holds keys. Only the worker deletes, rows of processes that are long gone.
GRANT SELECT, INSERT, UPDATE ON instances TO sched_api, sched_worker, sched_launcher;
GRANT DELETE ON instances TO sched_worker;

-- sched_ro: looks.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO sched_ro;
