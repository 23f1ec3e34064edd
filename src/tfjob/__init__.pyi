from tfjob import aio as aio
from tfjob.aio import JobFailed as JobFailed
from tfjob.aio import LogOptions as LogOptions
from tfjob.aio import Options as Options
from tfjob.aio import Status as Status
from tfjob.api.problems import InvalidManifest as InvalidManifest
from tfjob.api.problems import Problem as Problem
from tfjob.api.types import Verdict as Verdict
from tfjob.client import Client as Client
from tfjob.client import Job as Job
from tfjob.controller.actions import RecordedEvent as RecordedEvent
from tfjob.errors import InvalidRequest as InvalidRequest
from tfjob.jobs.backend import Line as Line
from tfjob.jobs.backend import NotFound as NotFound
from tfjob.jobs.backend import Replica as Replica
from tfjob.jobs.scale import InvalidScale as InvalidScale
from tfjob.programs.tfjob_export import export as export

__version__: str
__all__: list[str]
