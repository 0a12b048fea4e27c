"""Facts of the hardware beside the trace: makers, peak and reachable rates, caches and links, by the name that the trace has."""

from __future__ import annotations

from advisor.hardware.lookup import NAMES as NAMES
from advisor.hardware.lookup import Properties as Properties
from advisor.hardware.lookup import full_name as full_name
from advisor.hardware.lookup import limits as limits
from advisor.hardware.lookup import link_gbps as link_gbps
from advisor.hardware.lookup import peaks as peaks
from advisor.hardware.lookup import properties as properties
from advisor.hardware.makers import ACCELERATORS as ACCELERATORS
from advisor.hardware.makers import Abilities as Abilities
from advisor.hardware.makers import abilities as abilities
from advisor.hardware.makers import vendor as vendor
from advisor.hardware.rates import KINDS as KINDS
from advisor.hardware.rates import Limit as Limit
from advisor.hardware.rates import Peaks as Peaks
from advisor.hardware.rates import Rates as Rates
from advisor.hardware.settings import Hardware as Hardware
