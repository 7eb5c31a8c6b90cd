"""Our own small models of the zoo: recurrent, convolutional, attention, audio, detection, control flow, state, data-dependent sizes, numerics."""
import math

import torch
import torch.nn.functional as F
from torch import nn

AUTO = torch.export.Dim.AUTO


class Call(nn.Module):
    """A function as a model; modules that it uses are given by name."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            if isinstance(module, nn.Module):
                setattr(self, name, module)
            elif isinstance(module, nn.Parameter):
                self.register_parameter(name, module)
            else:
                self.register_buffer(name, module)

    def forward(self, *args):
        return self.function(self, *args)


def r(*shape):
    return torch.randn(shape)


def parameter(*shape):
    return nn.Parameter(torch.randn(shape) * 0.3)


# ---- Networks ----

def mlp(norm, act):
    return nn.Sequential(nn.Linear(12, 24), norm, act, nn.Dropout(0.2), nn.Linear(24, 24), act, nn.Linear(24, 5)), (r(4, 12),)


def autoencoder():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.LeakyReLU(0.2), nn.ConvTranspose2d(12, 8, 4, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Sigmoid()), (r(2, 3, 20, 24),)


def generator():
    return nn.Sequential(nn.ConvTranspose2d(16, 12, 4), nn.BatchNorm2d(12), nn.ReLU(True), nn.ConvTranspose2d(12, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(True),
                         nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()), (r(2, 16, 1, 1),)


def super_resolution():
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.PReLU(8), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)), (r(1, 1, 12, 10),)


def unet(kind):
    def block(i, o):
        norm = {"batch": nn.BatchNorm2d(o), "group": nn.GroupNorm(2, o), "instance": nn.InstanceNorm2d(o)}[kind]
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), norm, nn.SiLU())

    def forward(m, x):
        a = m.a(x)
        b = m.b(F.max_pool2d(a, 2))
        c = F.interpolate(m.c(F.avg_pool2d(b, 2)), scale_factor=2, mode="nearest")
        d = F.interpolate(m.d(torch.cat([b, c], 1)), size=a.shape[-2:], mode="bilinear", align_corners=True)
        return m.e(torch.cat([a, d], 1))
    return Call(forward, a=block(3, 6), b=block(6, 8), c=block(8, 8), d=block(16, 6), e=nn.Conv2d(12, 2, 1)), (r(1, 3, 16, 20),)


def separable(norm):
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), norm(8), nn.ReLU6(), nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), norm(8), nn.Hardswish(), nn.Conv2d(8, 16, 1, bias=False),
                         norm(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)), (r(2, 3, 17, 19),)


def squeeze_excite():
    def forward(m, x):
        y = m.conv(x)
        return y * torch.sigmoid(m.up(F.relu(m.down(y.mean((2, 3), keepdim=True))))) + x
    return Call(forward, conv=nn.Conv2d(8, 8, 3, padding=1), down=nn.Conv2d(8, 2, 1), up=nn.Conv2d(2, 8, 1)), (r(2, 8, 9, 9),)


def temporal():
    def forward(m, x):
        for conv in (m.a, m.b, m.c):
            y = F.pad(x, (2 * conv.dilation[0], 0))
            x = x + torch.tanh(conv(y)) * torch.sigmoid(m.gate(x))
        return x
    return Call(forward, a=nn.Conv1d(8, 8, 3), b=nn.Conv1d(8, 8, 3, dilation=2), c=nn.Conv1d(8, 8, 3, dilation=4), gate=nn.Conv1d(8, 8, 1)), (r(2, 8, 30),)


def video():
    return nn.Sequential(nn.Conv3d(2, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(6, 8, (1, 3, 3), padding=(0, 1, 1), groups=2), nn.AvgPool3d((1, 2, 2)),
                         nn.AdaptiveAvgPool3d((1, 2, 2)), nn.Flatten(), nn.Linear(32, 3)), (r(1, 2, 6, 12, 12),)


def recurrent(kind, layers, two, first, projection=0, steps=True):
    options = dict(num_layers=layers, bidirectional=two, batch_first=first, **({"proj_size": projection} if projection else {}))
    cell = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind](6, 8, **options)
    width = (projection or 8) * (2 if two else 1)

    def forward(m, x):
        y, _ = m.cell(x)
        return m.head(y if steps else y[:, -1])
    return Call(forward, cell=cell, head=nn.Linear(width, 3)), (r(2, 7, 6),)


def with_state(kind):
    cell = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](5, 7, 2)

    def forward(m, x, *state):
        y, last = m.cell(x, state if kind == "lstm" else state[0])
        return y
    return Call(forward, cell=cell), (r(6, 3, 5), *[r(2, 3, 7)] * (2 if kind == "lstm" else 1))


def cells(kind):
    cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[kind](4, 6)

    def forward(m, x):
        h, c, out = x.new_zeros(x.shape[1], 6), x.new_zeros(x.shape[1], 6), []
        for step in x.unbind(0):
            if kind == "lstm":
                h, c = m.cell(step, (h, c))
            else:
                h = m.cell(step, h)
            out.append(h)
        return torch.stack(out)
    return Call(forward, cell=cell), (r(4, 3, 4),)


def conv_lstm():
    def forward(m, x):
        h = c = x.new_zeros(x.shape[1], 6, *x.shape[3:])
        for step in x.unbind(0):
            i, f, g, o = m.gates(torch.cat([step, h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h
    return Call(forward, gates=nn.Conv2d(9, 24, 3, padding=1)), (r(3, 2, 3, 6, 6),)


def sequence_to_sequence():
    def forward(m, x, target):
        _, state = m.encoder(m.embed(x))
        y, _ = m.decoder(m.embed(target), state)
        weights = torch.softmax(y @ m.encoder(m.embed(x))[0].transpose(1, 2), -1)
        return m.head(torch.cat([y, weights @ m.encoder(m.embed(x))[0]], -1)).log_softmax(-1)
    return Call(forward, embed=nn.Embedding(30, 8, padding_idx=0), encoder=nn.GRU(8, 10, batch_first=True), decoder=nn.GRU(8, 10, batch_first=True), head=nn.Linear(20, 30)), (
        torch.randint(0, 30, (2, 7)), torch.randint(0, 30, (2, 5)))


def encoder_layer(**options):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, **options), 2, enable_nested_tensor=False), (r(2, 9, 16),)


def decoder_layer():
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 24, batch_first=True), 1), (r(2, 5, 16), r(2, 9, 16))


def multihead(mask):
    def forward(m, q, k):
        bias = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).triu(1) if mask else None
        y, w = m.attention(q, k, k, attn_mask=bias, need_weights=True)
        return y, w
    return Call(forward, attention=nn.MultiheadAttention(16, 4, kdim=12, vdim=12, batch_first=True)), (r(2, 6, 16), r(2, 6, 12))


def grouped_attention(window):
    def forward(m, x):
        b, n, _ = x.shape
        q, k, v = m.q(x).view(b, n, 4, 8).transpose(1, 2), m.k(x).view(b, n, 2, 8).transpose(1, 2), m.v(x).view(b, n, 2, 8).transpose(1, 2)
        position = torch.arange(n, device=x.device)
        angle = position[:, None] / 100 ** (torch.arange(4, device=x.device) / 4)
        cos, sin = torch.cat([angle.cos()] * 2, -1).to(x.dtype), torch.cat([angle.sin()] * 2, -1).to(x.dtype)
        q, k = (t * cos + torch.cat([-t[..., 4:], t[..., :4]], -1) * sin for t in (q, k))
        near = (position[:, None] - position).abs() < window if window else None
        y = F.scaled_dot_product_attention(q, k, v, near, is_causal=window is None, enable_gqa=True)
        return m.o(y.transpose(1, 2).reshape(b, n, 32))
    return Call(forward, q=nn.Linear(32, 32), k=nn.Linear(32, 16), v=nn.Linear(32, 16), o=nn.Linear(32, 32)), (r(2, 9, 32),)


def linear_attention():
    def forward(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return torch.einsum("bnd,bde->bne", q, torch.einsum("bnd,bne->bde", k, v)) / (q * k.sum(1, keepdim=True)).sum(-1, keepdim=True)
    return Call(forward, qkv=nn.Linear(12, 36)), (r(2, 10, 12),)


def experts():
    def forward(m, x):
        weight, chosen = m.gate(x).softmax(-1).topk(2)
        y = torch.einsum("bd,bkdh->bkh", x, m.up[chosen])
        y = torch.einsum("bkh,bkhd->bkd", F.silu(y), m.down[chosen])
        return (y * (weight / weight.sum(-1, keepdim=True))[..., None]).sum(1)
    return Call(forward, gate=nn.Linear(8, 4), up=parameter(4, 8, 12), down=parameter(4, 12, 8)), (r(5, 8),)


def selective_scan():
    def forward(m, x):
        delta, b, c = F.softplus(m.delta(x)), m.b(x), m.c(x)
        state, out = x.new_zeros(x.shape[0], 8, 4), []
        for t in range(x.shape[1]):
            state = torch.exp(delta[:, t, :, None] * -m.a.exp()) * state + (delta[:, t] * x[:, t])[..., None] * b[:, t, None]
            out.append((state * c[:, t, None]).sum(-1))
        return torch.stack(out, 1) + m.d * x
    return Call(forward, delta=nn.Linear(8, 8), b=nn.Linear(8, 4), c=nn.Linear(8, 4), a=parameter(8, 4), d=parameter(8)), (r(2, 6, 8),)


def mixer():
    def forward(m, x):
        x = m.patch(x).flatten(2).transpose(1, 2)
        x = x + m.tokens(m.n1(x).transpose(1, 2)).transpose(1, 2)
        return m.head((x + m.channels(m.n2(x))).mean(1))
    return Call(forward, patch=nn.Conv2d(3, 12, 4, 4), n1=nn.LayerNorm(12), tokens=nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 16)), n2=nn.LayerNorm(12),
                channels=nn.Sequential(nn.Linear(12, 24), nn.GELU("tanh"), nn.Linear(24, 12)), head=nn.Linear(12, 5)), (r(2, 3, 16, 16),)


def points():
    def forward(m, x):
        distance = torch.cdist(x, x)
        near = distance.topk(4, largest=False).indices
        b = torch.arange(x.shape[0])[:, None, None]
        y = m.edge(torch.cat([x[:, :, None].expand(-1, -1, 4, -1), x[b, near] - x[:, :, None]], -1)).amax(2)
        return m.head(y.max(1).values)
    return Call(forward, edge=nn.Sequential(nn.Linear(6, 16), nn.ReLU()), head=nn.Linear(16, 3)), (r(2, 12, 3),)


def graph(kind):
    def forward(m, x, edges):
        source, target = edges
        message = m.message(x)[source]
        n = x.shape[0]
        if kind == "mean":
            total = torch.zeros(n, 8).index_add(0, target, message)
            count = torch.zeros(n).index_add(0, target, torch.ones(target.shape[0])).clamp(min=1)
            return m.update(torch.cat([x, total / count[:, None]], -1))
        if kind == "max":
            return m.update(torch.cat([x, torch.zeros(n, 8).scatter_reduce(0, target[:, None].expand(-1, 8), message, "amax", include_self=False)], -1))
        score = F.leaky_relu((message * m.message(x)[target]).sum(-1), 0.2)
        score = torch.exp(score - score.max())
        total = torch.zeros(n).scatter_add(0, target, score)
        return m.update(torch.cat([x, torch.zeros(n, 8).index_add(0, target, message * (score / total[target])[:, None])], -1))
    return Call(forward, message=nn.Linear(5, 8), update=nn.Linear(13, 6)), (r(7, 5), torch.randint(0, 7, (2, 15)))


def recommender():
    def forward(m, dense, ids, offsets):
        features = torch.stack([m.bottom(dense), m.a(ids, offsets), m.b(ids, offsets)], 1)
        pairs = torch.bmm(features, features.transpose(1, 2))
        i, j = torch.tril_indices(3, 3, -1)
        return m.top(torch.cat([features[:, 0], pairs[:, i, j]], 1)).sigmoid()
    return Call(forward, bottom=nn.Sequential(nn.Linear(4, 8), nn.ReLU()), a=nn.EmbeddingBag(20, 8, mode="sum"), b=nn.EmbeddingBag(20, 8, mode="mean"), top=nn.Linear(11, 1)), (
        r(3, 4), torch.randint(0, 20, (9,)), torch.tensor([0, 3, 7]))


def field():
    def forward(m, points, directions):
        f = 2.0 ** torch.arange(4)
        x = (points[..., None] * f).flatten(-2)
        h = F.relu(m.a(torch.cat([points, x.sin(), x.cos()], -1)))
        density = F.softplus(m.density(h))[..., 0]
        alpha = 1 - torch.exp(-density * 0.1)
        weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return (weight[..., None] * torch.sigmoid(m.colour(torch.cat([h, directions[:, None].expand(-1, h.shape[1], -1)], -1)))).sum(1)
    return Call(forward, a=nn.Linear(27, 16), density=nn.Linear(16, 1), colour=nn.Linear(19, 3)), (r(3, 6, 3), F.normalize(r(3, 3), dim=-1))


def variational():
    def forward(m, x, noise):
        mean, log = m.encoder(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * log) * noise
        y = m.decoder(z)
        loss = F.mse_loss(y, x) - 0.5 * (1 + log - mean.pow(2) - log.exp()).mean()
        return y, loss
    return Call(forward, encoder=nn.Linear(10, 8), decoder=nn.Linear(4, 10)), (r(3, 10), r(3, 4))


def diffusion():
    def forward(m, x, t):
        angle = t[:, None] * torch.exp(-math.log(1000.0) * torch.arange(4) / 4)
        e = m.time(torch.cat([angle.sin(), angle.cos()], -1).to(x.dtype))[:, :, None, None]
        h = F.silu(m.n1(m.a(x))) + e
        scale, shift = m.film(e[:, :, 0, 0]).chunk(2, 1)
        h = m.n2(m.b(h)) * (1 + scale[..., None, None]) + shift[..., None, None]
        return m.out(F.silu(h)) + x
    return Call(forward, time=nn.Linear(8, 8), a=nn.Conv2d(3, 8, 3, padding=1), n1=nn.GroupNorm(4, 8), b=nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular"), n2=nn.GroupNorm(2, 8),
                film=nn.Linear(8, 16), out=nn.Conv2d(8, 3, 3, padding=1, padding_mode="reflect")), (r(2, 3, 8, 8), torch.tensor([3.0, 40.0]))


def flow():
    def forward(m, x):
        log = 0
        for layer in (m.a, m.b):
            left, right = x.chunk(2, -1)
            s, t = layer(left).chunk(2, -1)
            x = torch.cat([right * torch.tanh(s).exp() + t, left], -1)
            log = log + torch.tanh(s).sum(-1)
        return x, log + torch.linalg.slogdet(m.w)[1]
    return Call(forward, a=nn.Linear(3, 6), b=nn.Linear(3, 6), w=parameter(3, 3)), (r(4, 6),)


# ---- Signals ----

def spectrogram(mel):
    def forward(m, x):
        z = torch.stft(x, 32, 8, window=m.window, center=True, return_complex=True)
        power = z.abs() ** 2
        return torch.log(m.bank @ power + 1e-6) if mel else (power, torch.angle(z), z.real)
    return Call(forward, window=torch.hann_window(32), bank=torch.rand(10, 17)), (r(2, 200),)


def denoiser():
    def forward(m, x):
        z = torch.stft(x, 16, 4, window=m.window, return_complex=True)
        mask = torch.sigmoid(m.net(z.abs()))
        return torch.istft(z * mask, 16, 4, window=m.window, length=x.shape[-1])
    return Call(forward, window=torch.hann_window(16), net=nn.Conv1d(9, 9, 3, padding=1)), (r(2, 120),)


def fourier(rank):
    def forward(m, x):
        if rank == 1:
            return torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(m.weight), n=x.shape[-1])
        z = torch.fft.rfft2(x, norm="ortho")
        return torch.fft.irfft2(z * torch.view_as_complex(m.weight), s=x.shape[-2:], norm="ortho") + torch.fft.fftshift(torch.fft.fft2(x).abs(), dim=(-2, -1))
    return Call(forward, weight=parameter(9, 2) if rank == 1 else parameter(8, 5, 2)), (r(3, 16) if rank == 1 else r(2, 8, 8),)


def codec():
    def forward(m, x):
        z = m.encoder(x)
        distance = (z.transpose(1, 2)[:, :, None] - m.book).pow(2).sum(-1)
        code = distance.argmin(-1)
        return m.decoder(m.book[code].transpose(1, 2)), code
    return Call(forward, encoder=nn.Conv1d(1, 6, 8, 4), decoder=nn.ConvTranspose1d(6, 1, 8, 4), book=parameter(12, 6)), (r(2, 1, 64),)


# ---- Detection and geometry ----

def boxes():
    def forward(m, x):
        y = m.head(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 7)
        centre, size = y[..., :2].sigmoid() * 32, y[..., 2:4].clamp(-3, 3).exp() * 4
        box = torch.cat([centre - size / 2, centre + size / 2], -1)
        score, label = y[..., 4:].softmax(-1).max(-1)
        best, order = score.topk(6)
        return box.gather(1, order[..., None].expand(-1, -1, 4)), best, label.gather(1, order)
    return Call(forward, head=nn.Conv2d(5, 14, 1)), (r(2, 5, 4, 4),)


def suppressed():
    import torchvision

    def forward(m, box, score):
        keep = torchvision.ops.nms(box, score, 0.4)
        return box[keep], score[keep], torchvision.ops.box_iou(box, box)
    corner = torch.rand(15, 2) * 20
    return Call(forward), (torch.cat([corner, corner + 1 + torch.rand(15, 2) * 10], 1), torch.rand(15))


def regions():
    import torchvision

    def forward(m, x, box):
        rois = torch.cat([torch.zeros(box.shape[0], 1), box], 1)
        return torchvision.ops.roi_align(x, rois, (3, 3), 0.5, 2, True), torchvision.ops.roi_pool(x, rois, (2, 2), 0.5)
    return Call(forward), (r(1, 4, 10, 12), torch.tensor([[1.0, 2, 9, 15], [0, 0, 20, 18]]))


def deformable():
    import torchvision
    return Call(lambda m, x: m.conv(x, m.offset(x), torch.sigmoid(m.mask(x))), offset=nn.Conv2d(4, 18, 3, padding=1), mask=nn.Conv2d(4, 9, 3, padding=1),
                conv=torchvision.ops.DeformConv2d(4, 6, 3, padding=1)), (r(1, 4, 7, 8),)


def spatial_transformer():
    return Call(lambda m, x: F.grid_sample(x, F.affine_grid(m.theta(x.mean((2, 3))).view(-1, 2, 3), x.shape, align_corners=False), padding_mode="border", align_corners=False),
                theta=nn.Linear(3, 6)), (r(2, 3, 8, 9),)


# ---- Control flow, state, data-dependent sizes ----

def branch():
    def forward(m, x):
        return torch.cond(x.sum() > 0, lambda t: m.a(t).relu(), lambda t: m.b(t) - 1, (x,))
    return Call(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4)), (r(3, 4),)


def branch_on_size():
    return Call(lambda m, x: torch.cond(x.shape[0] > 4, lambda t: t.cumsum(0), lambda t: t * 2, (x,))), (r(6, 3),), {"dynamic": {"args": ({0: AUTO},)}, "sizes": [(r(3, 3),), (r(9, 3),)]}


def loop():
    from torch._higher_order_ops.while_loop import while_loop

    def forward(m, x, n):
        return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, torch.tanh(y) * 0.9), (torch.zeros((), dtype=torch.int64), x))[1] + n
    return Call(forward), (r(3, 4), torch.tensor(2))


def scanned():
    from torch._higher_order_ops.scan import scan

    def forward(m, x):
        return scan(lambda h, t: (h * 0.5 + t, h * t), x.new_zeros(x.shape[1]), x, dim=0)
    return Call(forward), (r(5, 3),)


def mapped():
    from torch._higher_order_ops.map import map as over
    return Call(lambda m, x, y: over(lambda t, u: t @ u + 1, x, y)), (r(4, 2, 3), r(3, 5))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("ring", torch.zeros(4, 3))

    def forward(self, x):
        self.count.add_(x.sum(0))
        self.ring[1:] = self.ring[:-1].clone()
        self.ring[0] = x[0]
        return self.count * 2, self.ring.sum(0)


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(8, 8), nn.Linear(8, 16)
        self.register_buffer("k", torch.zeros(1, 10, 8))
        self.register_buffer("v", torch.zeros(1, 10, 8))

    def forward(self, x, position):
        k, v = self.kv(x).chunk(2, -1)
        self.k.index_copy_(1, position, k)
        self.v.index_copy_(1, position, v)
        mask = torch.arange(10) <= position[:, None]
        return F.scaled_dot_product_attention(self.q(x), self.k, self.v, mask)


def picked():
    return Call(lambda m, x: (x[x > 0], torch.nonzero(x > 1), torch.masked_select(x, x < 0).sum())), (r(5, 6),)


def unique():
    return Call(lambda m, x: (*torch.unique(x, return_inverse=True, return_counts=True), torch.bincount(x, minlength=6), torch.repeat_interleave(x, x))), (torch.randint(0, 5, (12,)),)


def sized():
    def forward(m, x):
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.arange(n) * 2, torch.zeros(n, 3) + x.sum()
    return Call(forward), (torch.tensor([2, 3]),)


def symbolic():
    def forward(m, x):
        b, n = x.shape
        return x.view(b * n), x.reshape(n, b) / n, torch.cat([x, x.new_ones(b, n // 2)], 1), torch.arange(n) + b, x[: b // 2 + 1]
    return Call(forward), (r(4, 6),), {"dynamic": {"args": ({0: AUTO, 1: AUTO},)}, "sizes": [(r(7, 5),), (r(2, 9),)]}


def writes():
    def forward(m, x):
        y = x.clone()
        y[:, 1] = 5
        y[0].mul_(2)
        y[y > 3] = 0.5
        y.view(-1)[::3].add_(1)
        y[[0, 1], [2, 0]] = torch.tensor([7.0, 8.0])
        return y, y.t().contiguous().fill_diagonal_(0)
    return Call(forward), (r(4, 4),)


def written_input():
    def forward(m, x):
        x.add_(1)
        x[0].zero_()
        return x * 2
    return Call(forward), (r(3, 4),)


# ---- Numerics ----

def views():
    def forward(m, x):
        return (x.unfold(2, 3, 2), x.permute(2, 0, 1)[::2], x.diagonal(0, 1, 2), x.movedim(0, -1).flatten(1), x.as_strided((2, 3), (1, 4)), x.expand(2, -1, -1, -1), *x.split([1, 3], -1), *x.unbind(0),
                x.rot90(1, (1, 2)), x.roll((1, 2), (1, 2)), x.flip(0, 2), torch.tensor_split(x, 3, -1)[1], x.narrow(1, 1, 2), x.T.swapaxes(0, 1) if x.dim() == 2 else x.mT)
    return Call(forward), (r(2, 4, 4),)


def sorting():
    def forward(m, x):
        return (*x.sort(dim=-1, stable=True), *x.topk(3, 1), x.argsort(0), *x.kthvalue(2), *x.median(1), *x.mode(1), x.cumsum(0), x.cumprod(1), *x.cummax(0), x.logcumsumexp(1), torch.searchsorted(x.sort(-1).values, x),
                torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])))
    return Call(forward), (r(5, 7),)


def reductions():
    def forward(m, x):
        return (x.sum(), x.mean(0), x.var(1), x.std((0, 2)), x.amax(1), x.argmax(), x.norm(p=1), x.logsumexp(-1), x.prod(2), (x > 0).any(1), (x > 0).all(), x.nansum(), x.aminmax(dim=0)[1],
                torch.linalg.vector_norm(x, 3, (0, 1)), x.count_nonzero(1), torch.var_mean(x, 1)[0])
    return Call(forward), (r(3, 4, 5),)


def linear_algebra():
    def forward(m, x):
        a = x @ x.mT + torch.eye(4)
        values, _ = torch.linalg.eigh(a)
        return (torch.linalg.inv(a), torch.linalg.det(a), torch.linalg.cholesky(a), torch.linalg.solve(a, x), values, torch.linalg.svdvals(x), torch.linalg.matrix_norm(x), torch.matrix_exp(x * 0.1),
                torch.linalg.solve_triangular(torch.linalg.cholesky(a), x, upper=False), torch.linalg.qr(x)[1].abs())
    return Call(forward), (r(2, 4, 4),)


def complex_numbers():
    def forward(m, x):
        z = torch.complex(x, x.flip(-1))
        return z.abs(), z.angle(), (z * z.conj()).real, torch.view_as_real(z.exp()), torch.polar(x.abs(), x), z.sum(-1), z @ z.mT
    return Call(forward), (r(3, 4),)


def integers():
    def forward(m, x, y):
        return x // y, x % y, torch.fmod(x, y), x & y, x | y, x ^ y, ~x, x << 1, x >> 1, x / y, torch.gcd(x, y), x.to(torch.int8), (x * 70).to(torch.uint8), x.float().round().int(), x.clamp(0, 3), torch.where(x > y, x, 0)
    return Call(forward), (torch.tensor([-7, 7, 3, 0]), torch.tensor([2, -2, 5, 3]))


def promotion():
    def forward(m, a, b, c):
        return a + b, a * c, b / 2, b * 2.5, a.half() + c, (a > 0) + 1, torch.cat([a, b]), torch.where(a > 0, a, 1), b + c.bfloat16(), a.sum(dtype=torch.float64)
    return Call(forward), (r(4), torch.arange(4), torch.tensor(2.5, dtype=torch.float64))


def quantised():
    def forward(m, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        q = torch.clamp((x / scale).round(), -128, 127).to(torch.int8)
        y = torch._int_mm(q.repeat(5, 1), m.w.t()).to(torch.float32)[:4] * scale * 0.01
        return y, torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127), q
    return Call(forward, w=torch.randint(-128, 128, (24, 16), dtype=torch.int8)), (r(4, 16),)


def random_numbers():
    def forward(m, x):
        return x + torch.rand_like(x), torch.randn(3, 4), torch.randint(0, 9, (5,)), torch.bernoulli(x.sigmoid()), torch.randperm(6), F.dropout(x, 0.5, True), torch.empty(20).normal_(1, 2), torch.multinomial(x.softmax(-1), 2)
    return Call(forward), (r(3, 8),), {"seed": 5}


def nested():
    def forward(m, x, y):
        return {"sum": x["a"] + y[0], "list": [x["b"], (y[1] * 2, None)], "number": 3}
    return Call(forward), ({"a": r(3), "b": r(2)}, (r(3), r(2)))


def precision():
    def forward(m, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = m.a(x)
        with torch.no_grad():
            return m.b(y.float()), y
    return Call(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 4)), (r(3, 8),)


def tied():
    embed, head = nn.Embedding(20, 8), nn.Linear(8, 20, bias=False)
    head.weight = embed.weight
    return Call(lambda m, x: m.head(m.embed(x).cumsum(1)), embed=embed, head=head), (torch.randint(0, 20, (2, 5)),)


def losses():
    def forward(m, x, target, y):
        p = x.softmax(-1)
        return (F.cross_entropy(x, target, label_smoothing=0.1), F.nll_loss(x.log_softmax(-1), target), F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.kl_div(p.log(), y.softmax(-1), reduction="batchmean"),
                F.binary_cross_entropy(p, y.sigmoid()), F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.cosine_embedding_loss(x, y, torch.ones(4)), F.hinge_embedding_loss(x, torch.ones(4, 5)), F.poisson_nll_loss(x, y.abs()),
                F.soft_margin_loss(x, y.sign()), F.multi_margin_loss(x, target), F.triplet_margin_loss(x, y, p), F.margin_ranking_loss(x[:, 0], y[:, 0], torch.ones(4)))
    return Call(forward), (r(4, 5), torch.tensor([0, 4, 2, 1]), r(4, 5))


def resizing():
    def forward(m, x):
        return (F.interpolate(x, size=(7, 11), mode="bicubic"), F.interpolate(x, scale_factor=0.6, mode="bilinear", antialias=True), F.interpolate(x, scale_factor=2, mode="nearest-exact"), F.interpolate(x, (3, 3), mode="area"),
                F.interpolate(x[0], scale_factor=1.5, mode="linear"), F.pixel_unshuffle(x, 2), F.pad(x, (1, 2, 3, 1), "replicate"), F.unfold(x, 3, padding=1), F.fold(F.unfold(x, 2), (6, 8), 2), F.local_response_norm(x, 3), F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
                F.lp_pool2d(x, 2, 2), F.channel_shuffle(x, 2))
    return Call(forward), (r(1, 4, 6, 8),)


ACTIVATIONS = [nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Mish(), nn.ELU(), nn.SELU(), nn.CELU(), nn.Softplus(), nn.Hardtanh(), nn.Tanhshrink(), nn.LogSigmoid(), nn.Hardsigmoid(), nn.RReLU(), nn.Softsign(), nn.PReLU()]
HALF = {"dtypes": ["f32", "bf16", "f16"]}


def programs():
    makers = {"autoencoder": autoencoder, "generator": generator, "super_resolution": super_resolution, "separable_batch": lambda: separable(nn.BatchNorm2d), "separable_group": lambda: separable(lambda n: nn.GroupNorm(4, n)),
              "squeeze_excite": squeeze_excite, "temporal": temporal, "video": video, "conv_lstm": conv_lstm, "sequence_to_sequence": sequence_to_sequence, "decoder_layer": decoder_layer, "linear_attention": linear_attention, "experts": experts,
              "selective_scan": selective_scan, "mixer": mixer, "points": points, "recommender": recommender, "field": field, "variational": variational, "diffusion": diffusion, "flow": flow, "spectrogram": lambda: spectrogram(False),
              "mel": lambda: spectrogram(True), "denoiser": denoiser, "fourier1": lambda: fourier(1), "fourier2": lambda: fourier(2), "codec": codec, "boxes": boxes, "suppressed": suppressed, "regions": regions, "deformable": deformable,
              "spatial_transformer": spatial_transformer, "branch": branch, "branch_on_size": branch_on_size, "loop": loop, "scanned": scanned, "mapped": mapped, "counter": lambda: (Counter(), (r(2, 3),)),
              "cache": lambda: (Cache(), (r(1, 2, 8), torch.tensor([3, 4]))), "picked": picked, "unique": unique, "sized": sized, "symbolic": symbolic, "writes": writes, "written_input": written_input, "views": views, "sorting": sorting, "reductions": reductions,
              "linear_algebra": linear_algebra, "complex_numbers": complex_numbers, "integers": integers, "promotion": promotion, "quantised": quantised, "random_numbers": random_numbers, "nested": nested, "precision": precision, "tied": tied, "losses": losses,
              "resizing": resizing}
    makers |= {f"unet_{kind}": lambda kind=kind: unet(kind) for kind in ("batch", "group", "instance")}
    makers |= {f"graph_{kind}": lambda kind=kind: graph(kind) for kind in ("mean", "max", "attention")}
    makers |= {f"multihead_{mask}": lambda mask=mask: multihead(mask) for mask in (False, True)}
    makers |= {f"attention_window_{w}": lambda w=w: grouped_attention(w) for w in (None, 3)}
    makers |= {f"encoder_{i}": lambda o=o: encoder_layer(**o) for i, o in enumerate(({}, {"norm_first": True}, {"activation": "gelu"}))}
    makers |= {f"mlp_{type(a).__name__.lower()}": lambda a=a, i=i: mlp(nn.LayerNorm(24) if i % 2 else nn.BatchNorm1d(24), a) for i, a in enumerate(ACTIVATIONS)}
    makers |= {f"cells_{kind}": lambda kind=kind: cells(kind) for kind in ("lstm", "gru", "rnn")}
    makers |= {f"state_{kind}": lambda kind=kind: with_state(kind) for kind in ("lstm", "gru")}
    makers |= {f"{kind}_{layers}{'b' if two else ''}{'f' if first else ''}{p or ''}": lambda a=(kind, layers, two, first, p): recurrent(*a) for kind, layers, two, first, p in (
        ("lstm", 1, False, True, 0), ("lstm", 2, True, True, 0), ("lstm", 2, False, False, 3), ("gru", 1, False, True, 0), ("gru", 2, True, False, 0), ("rnn", 1, True, True, 0), ("rnn", 2, False, False, 0))}
    halves = ("autoencoder", "separable_batch", "mixer", "decoder_layer", "attention_window_None", "unet_group", "temporal", "mlp_gelu", "lstm_1f", "diffusion")
    for name, make in makers.items():
        settings = dict(HALF) if name in halves else {}
        if name in ("symbolic", "branch_on_size", "random_numbers"):
            settings |= make()[2]
        yield "plain", f"plain_{name}", lambda make=make: make()[:2], settings
