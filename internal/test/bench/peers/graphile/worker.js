// graphile-worker as the harness starts it: a process that answers JSON-RPC, one
// object a line, on its own input and output, as Go's net/rpc/jsonrpc has it.
// ../graphile.go has the calls.
'use strict';
const { Logger, run, runMigrations } = require('graphile-worker');
const { Pool } = require('pg');
const readline = require('node:readline');

// The clock of the wall in microseconds: Date has milliseconds only, so we wait
// once for one to begin and count on from there by the clock that has more.
const before = Date.now();
let beganAt = Date.now();
while (beganAt === before) beganAt = Date.now();
const began = process.hrtime.bigint();
const nowMicros = () => beganAt * 1000 + Number((process.hrtime.bigint() - began) / 1000n);

// The record of calls, three numbers each: slot, instant in ms, call in µs.
const chunk = 1 << 14;
let chunks = [];
let called = 0;
function note(slot, due) {
  const at = nowMicros();
  const i = called % chunk;
  if (i === 0) chunks.push(new Float64Array(3 * chunk));
  const last = chunks[chunks.length - 1];
  last[3 * i] = slot;
  last[3 * i + 1] = due;
  last[3 * i + 2] = at;
  called++;
}

let warmed = 0;
let awaitWarm = () => {};
const taskList = {
  slot: (payload, helpers) => note(payload.slot, helpers.job.run_at.getTime()),
  warm: () => {
    warmed++;
    awaitWarm();
  },
};

let pool;
let runner;
let preset;
const quiet = new Logger(() => (level, message) => {
  if (level === 'error') console.error('graphile-worker:', message);
});

const insert = `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
  SELECT ROW($1::text, json_build_object('slot', i), NULL, $2::timestamptz, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
  FROM generate_series($3::int, $4::int) i))`;
const batch = 5000;

async function add(task, due, n) {
  for (let from = 0; from < n; from += batch) {
    await pool.query(insert, [task, due, from, Math.min(n, from + batch) - 1]);
  }
}

async function start() {
  runner = await run({ preset, taskList, noHandleSignals: true });
  runner.promise.catch((error) => {
    console.error('graphile-worker ended:', error);
    process.exit(1);
  });
}

const methods = {
  async 'Part.Start'({ DatabaseURL, Preset }) {
    // Two connections for loading, apart from those that it works with.
    pool = new Pool({ connectionString: DatabaseURL, max: 2 });
    preset = { worker: { ...Preset, connectionString: DatabaseURL, logger: quiet } };
    await runMigrations({ preset });
    await start();
  },
  async 'Part.Pause'() {
    await runner.stop();
  },
  async 'Part.Resume'() {
    await start();
  },
  async 'Part.Enqueue'(n) {
    await add('slot', new Date(), n);
  },
  async 'Part.Warm'(n) {
    const all = new Promise((resolve) => {
      awaitWarm = () => warmed >= n && resolve();
    });
    await add('warm', new Date(), n);
    await all;
  },
  async 'Part.Load'({ N, Rounds, First }) {
    for (let round = 0; round < Rounds; round++) {
      await add('slot', new Date(Date.parse(First) + 1000 * round), N);
    }
  },
  async 'Part.Called'() {
    return called;
  },
  // Three little-endian numbers of 64 bits a call: see record.Encode.
  async 'Part.Calls'() {
    const out = Buffer.allocUnsafe(24 * called);
    for (let i = 0; i < called; i++) {
      const from = chunks[Math.floor(i / chunk)];
      const at = 3 * (i % chunk);
      out.writeUInt32LE(from[at + 1] / 1000, 24 * i);
      out.writeUInt32LE(from[at], 24 * i + 4);
      out.writeBigInt64LE(BigInt(from[at + 1]) * 1000000n, 24 * i + 8);
      out.writeBigInt64LE(BigInt(from[at + 2]) * 1000n, 24 * i + 16);
    }
    return out.toString('base64');
  },
};

function answer(id, result, error) {
  process.stdout.write(JSON.stringify({ id, result, error }) + '\n');
}

readline
  .createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const { method, params, id } = JSON.parse(line);
    try {
      if (!methods[method]) throw new Error(`there is no ${method} here`);
      answer(id, (await methods[method](params[0])) ?? {}, null);
    } catch (error) {
      answer(id, null, String(error));
    }
  })
  .on('close', async () => {
    // What has not been worked is dropped with the database.
    setTimeout(() => process.exit(0), 5000).unref();
    try {
      await runner?.stop();
      await pool?.end();
    } finally {
      process.exit(0);
    }
  });
