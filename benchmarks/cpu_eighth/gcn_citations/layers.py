import torch
import torch.nn as nn


def normalized_adjacency(edge_index, num_nodes):
    """D^-1/2 (A + I) D^-1/2 as a sparse matrix."""
    loops = torch.arange(num_nodes).repeat(2, 1)
    index = torch.cat([edge_index, loops], dim=1)
    row, col = index
    deg = torch.zeros(num_nodes).index_add_(0, row, torch.ones(row.numel()))
    inv_sqrt = deg.pow(-0.5)
    values = inv_sqrt[row] * inv_sqrt[col]
    return torch.sparse_coo_tensor(index, values, (num_nodes, num_nodes)).coalesce()


class GCNConv(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, edge_index):
        adj = normalized_adjacency(edge_index, x.size(0))
        return torch.sparse.mm(adj, x @ self.weight) + self.bias
