from .configuration_ticket import TicketConfig
from .modeling_ticket import TicketForSequenceClassification
from .processing_ticket import TicketProcessor

__all__ = ["TicketConfig", "TicketForSequenceClassification", "TicketProcessor"]
