"""One endpoint's limits shared by all workers, in the Redis that already carries their queue."""

import hashlib
import logging
from collections.abc import Awaitable
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from judging.llm.limits import SECONDS_PER_MINUTE, Limits, ProcessLimits

logger = logging.getLogger(__name__)

# Redis's own clock counts, in microseconds, so that the workers' clocks need not agree.
NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function moment(key) return tonumber(redis.call('GET', key) or '0') end
local function keep(key, at)
  if at > now then
    redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000)
  end
end
"""
# KEYS: pause, requests, tokens. ARGV: microseconds that one request and its tokens take up.
RESERVE = (
    NOW
    + """
local request, tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local start = math.max(now, moment(KEYS[1]))
if request > 0 then start = math.max(start, moment(KEYS[2])) end
if tokens > 0 then start = math.max(start, moment(KEYS[3])) end
if request > 0 then keep(KEYS[2], start + request) end
if tokens > 0 then keep(KEYS[3], start + tokens) end
return start - now
"""
)
# KEYS: tokens. ARGV: microseconds to give back.
SETTLE = (
    NOW
    + """
local at = moment(KEYS[1])
if at > now then redis.call('SET', KEYS[1], string.format('%.0f', math.max(now, at - ARGV[1])),
  'KEEPTTL') end
return 0
"""
)
# KEYS: pause. ARGV: microseconds to pause for; 0 asks how long is left.
PAUSE = (
    NOW
    + """
local at = math.max(moment(KEYS[1]), now + ARGV[1])
if ARGV[1] ~= '0' then keep(KEYS[1], at) end
return at - now
"""
)
MICRO = 1_000_000


class RedisLimits:
    """The pause, the requests and the tokens a minute of one endpoint, common to all workers.

    Where Redis can't be reached, this worker goes on with its own memory: a rate limit that is
    not shared costs refusals, and a run that stops costs the run.
    """

    def __init__(self, url: str, base_url: str) -> None:
        name = hashlib.sha256(base_url.encode()).hexdigest()[:16]
        self._keys = [f"fairjudge:{name}:{what}" for what in ("pause", "requests", "tokens")]
        self._redis = Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0)
        self._alone = ProcessLimits()
        self._warned = False

    async def reserve(self, limits: Limits, tokens: int) -> float:
        alone = await self._alone.reserve(limits, tokens)
        request_span = SECONDS_PER_MINUTE / limits.rpm if limits.rpm else 0.0
        token_span = tokens * SECONDS_PER_MINUTE / limits.tpm if limits.tpm else 0.0
        shared = await self._run(RESERVE, self._keys, request_span, token_span)
        return alone if shared is None else shared

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self._alone.settle(limits, unused_tokens)
        if limits.tpm:
            given_back = unused_tokens * SECONDS_PER_MINUTE / limits.tpm
            await self._run(SETTLE, self._keys[2:], given_back)

    async def pause(self, seconds: float) -> None:
        await self._alone.pause(seconds)
        await self._run(PAUSE, self._keys[:1], seconds)

    async def paused_for(self) -> float:
        alone = await self._alone.paused_for()
        shared = await self._run(PAUSE, self._keys[:1], 0.0)
        return alone if shared is None else shared

    async def close(self) -> None:
        await self._redis.aclose()

    async def _run(self, script: str, keys: list[str], *seconds: float) -> float | None:
        """The script's answer in seconds, or None where Redis can't be reached."""
        spans = [str(round(value * MICRO)) for value in seconds]
        try:
            answer = self._redis.eval(script, len(keys), *keys, *spans)
            return float(await cast(Awaitable[int], answer)) / MICRO
        except (RedisError, OSError) as error:
            if not self._warned:
                logger.warning("Redis can't be reached; limits are not shared: %s", error)
                self._warned = True
            return None
